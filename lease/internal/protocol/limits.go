package protocol

// The simulator replaces this file.

// MaxEnded is the number of ended holdings that a record keeps itself. In the simulator they are
// fewer, so that worker IDs which change hands a few times have a longer history, too.
const MaxEnded = 8
