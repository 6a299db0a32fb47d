// Package bugs tests the judge with foreign nodes that each have one known bug. It holds a table of bug, scenario and the guarantee that
// must detect it. "make foreign" prints the table.
package bugs
