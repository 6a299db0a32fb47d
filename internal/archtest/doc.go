// Package archtest holds the architecture as tests: who may import whom, which packages stay pure, how long a file may
// be; and that docs/specification.md accounts for every item and names proofs that exist. A rule that breaks says what to do
// instead. It has no code of its own.
package archtest
