package server

import "context"

// call is the middleware's knowledge of a request. Each part sets its own field.
type call struct {
	token   Token
	quota   quota
	room    room
	pace    pace
	outcome outcome
}

type callKey struct{}

// of returns the call of a context, or one without limits.
func of(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return new(call)
}
