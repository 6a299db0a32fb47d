package scenarios

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/leasestorm/leasestorm/sim/sentinel"
)

var _ = Describe("Another server becomes the master, and no lease has two owners", Label("sentinel"), func() {
	It("whether the old one is gone, comes back, lives on, or is named again", func() {
		rounds := sentinel.Start(GinkgoTB(), 0).Play(sentinel.Kinds()...)
		Expect(rounds).To(HaveLen(len(sentinel.Kinds())))
		Expect(rounds).To(HaveEach(HaveField("Doubled", 0)))
	})
	It("and with Replicas also while an old master and an instance are cut off together", func() {
		kinds := slices.Repeat(append(sentinel.Kinds(), sentinel.Cut), 2)
		rounds := sentinel.Start(GinkgoTB(), 2).Play(kinds...)
		Expect(rounds).To(HaveLen(len(kinds)))
		Expect(rounds).To(HaveEach(HaveField("Doubled", 0)))
	})
	It("and with Replicas on a cluster also while the leases' slot moves to another shard", func() {
		kinds := slices.Repeat(append(sentinel.Kinds(), sentinel.Move), 2)
		rounds := sentinel.StartClustered(GinkgoTB(), 2).Play(kinds...)
		Expect(rounds).To(HaveLen(len(kinds)))
		Expect(rounds).To(HaveEach(HaveField("Doubled", 0)))
	})
	It("without Replicas leases have two owners then, which is what these trials would show", func() {
		Expect(sentinel.Start(GinkgoTB(), 0).Play(sentinel.Cut)).To(HaveEach(HaveField("Doubled", BeNumerically(">", 0))))
	})
})
