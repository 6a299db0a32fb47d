// Package bugs plays nodes of another program that each have one known fault against the judge: a table of fault, scenario and
// the guarantee that must see it. "make foreign" prints it.
package bugs
