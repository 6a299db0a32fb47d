// Package mutant breaks promises on purpose and proves that the judge sees each of them, by the guarantee that it breaks.
//
// A mutant alters what passes at a seam of the virtual engine: what a core is told and asks for, a script, what the machines of
// elections and intents ask for, what a caller is told. The code of the library stays as it is, so a mutant outlives its refactoring.
// Seeds 1, 2, 3, … are played until one breaks a guarantee. The first that breaks any must break the mutant's own, and with nothing
// altered it must hold.
//
// sim/mutant/hunt changes statements of the code itself, which nobody chose: it says what share of these the storms see.
package mutant
