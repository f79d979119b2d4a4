package recipes

import (
	"context"
	"net"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5394e6b1/snowflake"
)

const orderProto = `syntax = "proto3";
package shop;
message Order {
  int64 id = 1;
  repeated int64 parts = 2;
}
message Others {
  fixed64 fixed = 1;
  string text = 2;
  sint64 zigzag = 3;
}`

func TestProtobuf(t *testing.T) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"order.proto": orderProto})}}
	files, err := compiler.Compile(t.Context(), "order.proto")
	require.NoError(t, err)
	message := func(name, field string, v any) proto.Message {
		m := dynamicpb.NewMessage(files[0].Messages().ByName(protoreflect.Name(name)))
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOf(v))
		return m
	}
	sizes := map[string]int{}
	for field, m := range map[string]proto.Message{
		"int64":   message("Order", "id", int64(middle)),
		"fixed64": message("Others", "fixed", uint64(middle)),
		"string":  message("Others", "text", middle.String()),
		"sint64":  message("Others", "zigzag", int64(middle)),
	} {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		sizes[field] = len(b)
		text, err := protojson.Marshal(m)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"117469438034313216"`, "all of them are strings in JSON")
	}
	assert.Equal(t, map[string]int{"int64": 10, "fixed64": 9, "string": 20, "sint64": 10}, sizes)
}

// getOrder is a handler as protoc-gen-go-grpc would have it, for a request of one int64.
func getOrder(_ context.Context, request *wrapperspb.Int64Value) (*wrapperspb.StringValue, error) {
	id := snowflake.ID(request.GetValue())
	if err := snowflake.DefaultLayout().Check(id); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return wrapperspb.String(snowflake.Decode(id).String()), nil
}

func TestGRPC(t *testing.T) {
	server, listener := grpc.NewServer(), bufconn.Listen(1<<16)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "shop.Orders", Methods: []grpc.MethodDesc{{
		MethodName: "Get",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.Int64Value)
			if err := decode(in); err != nil {
				return nil, err
			}
			return getOrder(ctx, in)
		},
	}}}, nil)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///shop", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	defer conn.Close()

	out := new(wrapperspb.StringValue)
	require.NoError(t, conn.Invoke(t.Context(), "/shop.Orders/Get", wrapperspb.Int64(int64(middle)), out))
	assert.Equal(t, snowflake.Decode(middle).String(), out.GetValue())
	err = conn.Invoke(t.Context(), "/shop.Orders/Get", wrapperspb.Int64(-1), out)
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	assert.ErrorContains(t, err, "-1 is negative")
}
