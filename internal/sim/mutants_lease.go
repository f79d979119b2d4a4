package main

// leaseMutants are the mistakes of package lease.
var leaseMutants = []mutant{}
