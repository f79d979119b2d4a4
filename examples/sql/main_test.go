package main

// Example shows the rows of Tuesday: of all items, only 2 and 3 were ordered then, at midnight and
// at noon.
func Example() {
	main()
	// Output:
	// Tuesday is 55082955571200000 <= id < 55445343436800000
	//   55082955571204096  2026-06-02 00:00:00  item 2
	//   55264149504004096  2026-06-02 12:00:00  item 3, refunds 55082955571204096
}
