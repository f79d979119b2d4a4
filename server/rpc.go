package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// service answers the calls of the .proto.
type service struct{ s *Server }

func (v service) NextID(ctx context.Context, _ *pb.NextIDRequest) (*pb.NextIDResponse, error) {
	id, err := v.s.gen.NextIDContext(ctx)
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
		Id: int64(d.id), Parts: sentParts(d.parts), Layout: sentLayout(d.layout), Form: d.form,
		Base32: d.id.Base32(), Base58: d.id.Base58(), Base62: d.id.Base62(),
	}, nil
}

func (v service) Encode(ctx context.Context, in *pb.EncodeRequest) (*pb.EncodeResponse, error) {
	p, err := receivedParts(in.Parts)
	var id snowflake.ID
	if err == nil {
		id, err = v.s.encode(p, in.Layout)
	}
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.EncodeResponse{Id: int64(id)}, nil
}

func (v service) Range(ctx context.Context, in *pb.RangeRequest) (*pb.RangeResponse, error) {
	err := errors.Join(valid("from", in.From), valid("to", in.To))
	var lo, hi snowflake.ID
	if err == nil {
		lo, hi, err = v.s.bounds(in.From.AsTime(), in.To.AsTime(), in.Layout)
	}
	if err != nil {
		return nil, fail(ctx, err)
	}
	return &pb.RangeResponse{Lo: int64(lo), Hi: int64(hi)}, nil
}

func (v service) Layout(ctx context.Context, in *pb.LayoutRequest) (*pb.LayoutResponse, error) {
	l, err := v.s.layout(in.Layout)
	if err != nil {
		return nil, fail(ctx, err)
	}
	out := &pb.LayoutResponse{Layout: sentLayout(l)}
	if writable(l.Expires()) {
		out.Expires = timestamppb.New(l.Expires())
	}
	return out, nil
}

// valid refuses a time that is missing or has no date.
func valid(field string, t *timestamppb.Timestamp) error {
	if err := t.CheckValid(); err != nil {
		return &fieldError{field, err}
	}
	return nil
}

func sentParts(p snowflake.Parts) *pb.Parts {
	return &pb.Parts{
		Time: timestamppb.New(p.Time), Clockseq: int64(p.ClockSeq), Datacenter: int64(p.Datacenter),
		Worker: int64(p.Worker), Sequence: int64(p.Sequence),
	}
}

// receivedParts refuses numbers that are no int, as there are on machines of 32 bits.
func receivedParts(p *pb.Parts) (snowflake.Parts, error) {
	if p == nil {
		return snowflake.Parts{}, wrong("parts", "there are none")
	}
	if err := valid("parts.time", p.Time); err != nil {
		return snowflake.Parts{}, err
	}
	to := snowflake.Parts{Time: p.Time.AsTime()}
	for _, f := range []struct {
		name string
		from int64
		to   *int
	}{
		{"clockseq", p.Clockseq, &to.ClockSeq},
		{"datacenter", p.Datacenter, &to.Datacenter},
		{"worker", p.Worker, &to.Worker},
		{"sequence", p.Sequence, &to.Sequence},
	} {
		if *f.to = int(f.from); int64(*f.to) != f.from {
			return to, wrong("parts."+f.name, "%d does not fit", f.from)
		}
	}
	return to, nil
}

func sentLayout(l snowflake.Layout) *pb.Layout {
	return &pb.Layout{
		Epoch: timestamppb.New(l.Epoch.Time()), Unit: durationpb.New(l.Unit),
		TimeBits: uint32(l.TimeBits), ClockSeqBits: uint32(l.ClockSeqBits), DatacenterBits: uint32(l.DatacenterBits),
		WorkerBits: uint32(l.WorkerBits), SequenceBits: uint32(l.SequenceBits), WorkerLast: l.WorkerLast,
	}
}
