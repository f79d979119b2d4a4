package server

import "context"

// call is what the parts of the server know of a request. The middleware that finds something out
// sets its field.
type call struct {
	token   Token
	quota   quota
	room    room
	pace    pace
	outcome outcome
}

type callKey struct{}

// of returns the call that a context belongs to, or one without limits.
func of(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return new(call)
}
