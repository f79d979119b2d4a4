package book

// The simulator replaces this file.

// MaxStores is the number of stores whose sightings a process remembers. In the simulator
// all processes are one, and remember nothing for each other.
var MaxStores = 1024
