package book

// The simulator replaces this file.

// MaxStores is how many stores a process remembers, and what it has seen of them. In the simulator
// all processes are one, and remember nothing for each other.
var MaxStores = 1024
