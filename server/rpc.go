package server

import (
	"cmp"
	"context"
	"math"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// plainJSON is JSON that includes numbers that are 0, which protobuf's JSON leaves out. So an
// answer of Decode has the same keys as that of /decode.
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
	return &pb.NextIDResponse{Id: int64(id)}, failed(ctx, err)
}

func (v service) Batch(ctx context.Context, in *pb.BatchRequest) (*pb.BatchResponse, error) {
	ids, err := v.s.issue(ctx, in.N)
	return &pb.BatchResponse{Ids: numbers(ids), Nonce: in.Nonce}, failed(ctx, err)
}

func (v service) Stream(ctx context.Context, in *pb.StreamRequest, to *connect.ServerStream[pb.StreamResponse]) error {
	return failed(ctx, v.stream(ctx, in, to))
}

// stream sends in.N IDs. The next batch is issued when the client has room for it.
func (v service) stream(ctx context.Context, in *pb.StreamRequest, to *connect.ServerStream[pb.StreamResponse]) error {
	i, err := v.s.issues()
	if err != nil {
		return err
	}
	q := of(ctx)
	size := cmp.Or(in.Batch, int64(min(1000, v.s.o.MaxIDs, q.burst())))
	if err := within("n", in.N, math.MaxInt64); err != nil {
		return err
	}
	if err := v.s.atOnce(ctx, "batch", size); err != nil {
		return err
	}
	if err := q.take(weight(size)); err != nil {
		return err
	}
	batch := make([]snowflake.ID, min(size, in.N))
	for left := in.N; left > 0; left -= int64(len(batch)) {
		if v.s.draining.Load() {
			return errDraining
		}
		batch = batch[:min(int64(len(batch)), left)]
		if err := q.waitForQuota(ctx, len(batch)); err != nil {
			return err
		}
		q.goOn(v.s.o.Timeout)
		if _, err := i.gen.Fill(ctx, batch); err != nil {
			return err
		}
		if err := to.Send(&pb.StreamResponse{Ids: numbers(batch)}); err != nil {
			return context.Canceled // the client is gone
		}
	}
	return nil
}

func (v service) Decode(ctx context.Context, in *pb.DecodeRequest) (*pb.DecodeResponse, error) {
	d, err := v.decode(in)
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.DecodeResponse{
		Id: int64(d.id), Parts: sentParts(d.parts), Layout: d.layout.String(), Form: d.form,
		Base32: d.id.Base32(), Base58: d.id.Base58(), Base62: d.id.Base62(),
	}, nil
}

func (v service) decode(in *pb.DecodeRequest) (decoded, error) {
	switch value := in.Value.(type) {
	case *pb.DecodeRequest_Id:
		return v.s.decode("id", decoded{id: snowflake.ID(value.Id)}, in.Layout)
	case *pb.DecodeRequest_Text:
		return v.s.read("text", value.Text, in.Layout)
	}
	return decoded{}, wrong("id", "there is neither an id nor a text")
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
