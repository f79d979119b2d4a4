package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// plainJSON is a codec for JSON with zero numbers, which protobuf's JSON omits, so that answers of
// Decode have the same keys as those of /decode.
type plainJSON struct{ name string }

func (c plainJSON) Name() string { return c.name }

func (c plainJSON) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (plainJSON) MarshalAppend(to []byte, message any) ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(to, message.(proto.Message))
}

func (plainJSON) Unmarshal(text []byte, message any) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message.(proto.Message))
}

// answering converts the service's errors to those of the protocol.
type answering struct{}

func (answering) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, in connect.AnyRequest) (connect.AnyResponse, error) {
		out, err := next(ctx, in)
		if err != nil {
			return nil, fail(ctx, err).rpc()
		}
		return out, nil
	}
}

func (answering) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := next(ctx, conn)
		if e := new(connect.Error); errors.As(err, &e) { // connect could not read the request
			of(ctx).outcome.code = fmt.Sprintf("grpc_%d", e.Code())
			return err
		}
		if err != nil {
			return fail(ctx, err).rpc()
		}
		return nil
	}
}

func (answering) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// service implements the service of the .proto.
type service struct{ s *Server }

func (v service) NextID(ctx context.Context, _ *pb.NextIDRequest) (*pb.NextIDResponse, error) {
	id, err := v.s.next(ctx)
	return &pb.NextIDResponse{Id: int64(id)}, err
}

func (v service) Batch(ctx context.Context, in *pb.BatchRequest) (*pb.BatchResponse, error) {
	ids, err := v.s.issue(ctx, in.N)
	return &pb.BatchResponse{Ids: numbers(ids), Nonce: in.Nonce}, err
}

// Stream sends in.N IDs. A batch is issued when the client has read the previous one.
func (v service) Stream(ctx context.Context, in *pb.StreamRequest, to *connect.ServerStream[pb.StreamResponse]) error {
	i, err := v.s.issues()
	if err != nil {
		return err
	}
	c := of(ctx)
	size := cmp.Or(in.Batch, int64(min(1000, v.s.o.MaxIDs, c.quota.largest())))
	if err := inRange("n", in.N, math.MaxInt64); err != nil {
		return err
	}
	if err := v.s.checkCount(ctx, "batch", size); err != nil {
		return err
	}
	if err := c.room.take(weight(size)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.s.drained, func() { cancel(errDraining) })()
	defer c.pace.limitClient() // so that the client cannot delay the end
	batch := make([]snowflake.ID, min(size, in.N))
	for left := in.N; left > 0; left -= int64(len(batch)) {
		batch = batch[:min(int64(len(batch)), left)]
		c.pace.unlimitClient()
		if err := c.quota.wait(ctx, len(batch)); err != nil {
			return err
		}
		if _, err := i.gen.Fill(ctx, batch); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		c.pace.limitClient()
		if err := to.Send(&pb.StreamResponse{Ids: numbers(batch)}); err != nil {
			return context.Canceled // the client is gone
		}
	}
	return nil
}

func (v service) Decode(_ context.Context, in *pb.DecodeRequest) (*pb.DecodeResponse, error) {
	var d decoded
	var err error = wrong("id", "there is neither an id nor a text")
	switch value := in.Value.(type) {
	case *pb.DecodeRequest_Id:
		d, err = v.s.decode("id", snowflake.ID(value.Id), "", in.Layout)
	case *pb.DecodeRequest_Text:
		d, err = v.s.read("text", value.Text, in.Layout)
	}
	return &pb.DecodeResponse{
		Id: int64(d.ID), Parts: sentParts(d.Parts.Parts), Layout: d.Layout, Form: d.Form,
		Base32: d.Base32, Base58: d.Base58, Base62: d.Base62,
	}, err
}

func sentParts(p snowflake.Parts) *pb.Parts {
	return &pb.Parts{
		Time: timestamppb.New(p.Time), ClockSeq: unlessZero(p.ClockSeq), Datacenter: unlessZero(p.Datacenter),
		Worker: int32(p.Worker), Sequence: int32(p.Sequence),
	}
}

func unlessZero(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}
