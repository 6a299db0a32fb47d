// Command contenders plays the same faults against lock libraries, each as its documentation advises and once more with care, and writes
// docs/contenders.md. make contenders runs it in the repository's root.
package main

import (
	"errors"
	"flag"
	"log"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("contenders: ")
	var s settings
	only := flag.String("only", ".", "play only what matches the `REGEXP`, as contender/question")
	page := flag.String("page", "docs/contenders.md", "write this `FILE`")
	flag.StringVar(&s.simulate, "simulate", "bin/simulate", "the simulator's `FILE`")
	flag.StringVar(&s.bin, "bin", "bin/contenders", "`DIR` of the adapters in Go")
	flag.StringVar(&s.folder, "report", "reports/contenders", "`DIR` of the runs")
	flag.IntVar(&s.seeds, "seeds", 3, "play `N` seeds on the real engine")
	flag.IntVar(&s.parallel, "parallel", 10, "play `N` storms at a time on the real engine, which wait most of the time")
	flag.IntVar(&s.virtual, "virtual", 0, "play `N` seeds of libraries in Go in virtual time; 0: all on the real engine")
	flag.BoolVar(&s.resume, "resume", false, "play only the storms that have no run yet")
	flag.Parse()
	for i := range contenders {
		if c := &contenders[i]; c.module != "" && exec.Command(python, "-c", "import "+c.module).Run() != nil {
			c.missing = true
			log.Printf("%s is left out: python3-%s is not installed", c.Name, c.module)
		}
	}
	which, t := regexp.MustCompile(*only), &table{cells: map[cell][]result{}}
	var onVirtual, onReal error
	var both sync.WaitGroup
	both.Go(func() { onVirtual = t.all(s, s.plays(which, true), runtime.NumCPU(), lowly) })
	both.Go(func() { onReal = t.all(s, s.plays(which, false), s.parallel, func() {}) })
	both.Wait()
	err := errors.Join(onVirtual, onReal)
	if err == nil {
		err = t.write(*page, s)
	}
	if err != nil {
		log.Fatal(err)
	}
}
