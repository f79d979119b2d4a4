package server

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// plainJSON is JSON with numbers that are 0, which protobuf's JSON leaves out. So an ID that Decode takes
// apart has the same keys as at /decode.
type plainJSON struct{ name string }

func (c plainJSON) Name() string { return c.name }

func (c plainJSON) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (plainJSON) MarshalAppend(to []byte, message any) ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(to, message.(proto.Message))
}

func (plainJSON) Unmarshal(text []byte, message any) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message.(proto.Message))
}

// service answers the calls of the .proto.
type service struct{ s *Server }

func (v service) NextID(ctx context.Context, _ *pb.NextIDRequest) (*pb.NextIDResponse, error) {
	id, err := v.s.next(ctx)
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.NextIDResponse{Id: int64(id)}, nil
}

func (v service) Batch(ctx context.Context, in *pb.BatchRequest) (*pb.BatchResponse, error) {
	ids, err := v.s.issue(ctx, in.N)
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.BatchResponse{Ids: numbers(ids), Nonce: in.Nonce}, nil
}

func (v service) Stream(ctx context.Context, in *pb.StreamRequest, to *connect.ServerStream[pb.StreamResponse]) error {
	if in.Batch == 0 {
		in.Batch = int64(min(1000, v.s.o.MaxIDs))
	}
	err := within("n", in.N, 1, v.s.o.MaxStreamIDs)
	if err == nil {
		err = within("batch", in.Batch, 1, v.s.o.MaxIDs)
	}
	if err == nil {
		err = of(ctx).take(weight(in.Batch))
	}
	if err == nil {
		err = v.stream(ctx, in, to)
	}
	if err != nil {
		return fail(ctx, err)
	}
	return nil
}

// stream sends in.N IDs. The next batch is issued when the client has room for it.
func (v service) stream(ctx context.Context, in *pb.StreamRequest, to *connect.ServerStream[pb.StreamResponse]) error {
	batch := make([]snowflake.ID, min(in.Batch, in.N))
	for left := in.N; left > 0; left -= int64(len(batch)) {
		if v.s.draining.Load() {
			return errDraining
		}
		batch = batch[:min(int64(len(batch)), left)]
		if err := of(ctx).waitForQuota(ctx, len(batch)); err != nil {
			return err
		}
		of(ctx).goOn(v.s.o.Timeout)
		if _, err := v.s.gen.Fill(ctx, batch); err != nil {
			return err
		}
		if err := to.Send(&pb.StreamResponse{Ids: numbers(batch)}); err != nil {
			return fmt.Errorf("the client does not take the IDs: %w", err)
		}
	}
	return nil
}

func (v service) Decode(ctx context.Context, in *pb.DecodeRequest) (*pb.DecodeResponse, error) {
	d, field, err := decoded{id: snowflake.ID(in.GetId())}, "id", error(nil)
	switch in.Value.(type) {
	case nil:
		err = wrong("id", "there is neither an id nor a text")
	case *pb.DecodeRequest_Text:
		field = "text"
		d, err = parse(field, in.GetText())
	}
	if err == nil {
		d, err = v.s.decode(field, d, in.Layout)
	}
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.DecodeResponse{
		Id: int64(d.id), Parts: sentParts(d.parts), Layout: d.layout.String(), Form: d.form,
		Base32: d.id.Base32(), Base58: d.id.Base58(), Base62: d.id.Base62(),
	}, nil
}

func sentParts(p snowflake.Parts) *pb.Parts {
	return &pb.Parts{
		Time: timestamppb.New(p.Time), Clockseq: unlessZero(p.ClockSeq), Datacenter: unlessZero(p.Datacenter),
		Worker: int32(p.Worker), Sequence: int32(p.Sequence),
	}
}

func unlessZero(n int) *int32 {
	if n == 0 {
		return nil
	}
	return new(int32(n))
}
