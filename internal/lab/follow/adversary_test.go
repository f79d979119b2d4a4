//go:build unix

package follow_test

const childEnv = "FOLLOW_CHILD"

func child(string) {}
