package main

// mutant is a deliberate defect.
type mutant struct {
	name    string
	seeds   int // within so many it has to be found
	patches []patch
}

// mutants are the mistakes of other libraries, and those that this one could
// make. Each is a change of the code that on(name) switches on; with none on, the
// simulator finds nothing.
var mutants = []mutant{}

// regression is a mistake that this library once made, and the seed that shows it.
type regression struct {
	name    string
	seed    uint64
	patches []patch
}

var regressions = []regression{
	{"a steady clock is set again, after its lease's", 907, []patch{{"clock.go",
		"\tif leased {\n", "\tif leased && !(c.wall.steady && on(\"a steady clock is set again, after its lease's\")) {\n"}}},
}
