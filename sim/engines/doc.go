// Package engines holds the two engines together: the same plans, run on real processes and in virtual time, must give the
// same verdicts, and figures that lie alike. It has tests only.
package engines
