package scenarios

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/leasestorm/leasestorm/sim/sentinel"
)

var _ = Describe("Sentinel names another master, and no lease has two owners", Label("sentinel"), func() {
	It("whether the old one is gone, comes back, lives on, or is named again", func() {
		rounds := sentinel.Start(GinkgoTB()).Play(sentinel.Kinds()...)
		Expect(rounds).To(HaveLen(len(sentinel.Kinds())))
		Expect(rounds).To(HaveEach(HaveField("Doubled", 0)))
	})
})
