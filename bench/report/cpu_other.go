//go:build !unix

package main

const cpuKnown = false
