// Package mutant breaks guarantees on purpose and proves that the judge detects each break, by the right guarantee.
//
// A mutant alters the data at a seam of the virtual engine: a core's input and output, a script, the effects of the machines of elections
// and intents, or an API's answer. The library's code is unchanged, so a mutant survives refactoring. Seeds 1, 2, 3, … are played until
// one breaks a guarantee. That seed must break the mutant's own guarantee, and must break none without the mutant.
//
// sim/mutant/hunt changes random statements of the code itself and measures the share that the storms detect.
package mutant
