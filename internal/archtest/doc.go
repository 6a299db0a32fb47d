// Package archtest tests the architecture: the imports between packages, which packages stay pure, and the size of files. It also tests
// that docs/specification.md accounts for every item and names existing proofs. A broken rule says what to do instead.
package archtest
