package recipes

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

func TestProtobuf(t *testing.T) {
	types := map[string]descriptorpb.FieldDescriptorProto_Type{
		"int64": descriptorpb.FieldDescriptorProto_TYPE_INT64, "fixed64": descriptorpb.FieldDescriptorProto_TYPE_FIXED64,
		"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "sint64": descriptorpb.FieldDescriptorProto_TYPE_SINT64,
	}
	sizes := map[string]int{}
	for name, value := range map[string]any{
		"int64":   int64(middle),
		"fixed64": uint64(middle),
		"string":  middle.String(),
		"sint64":  int64(middle),
	} {
		file := servertest.Must(protodesc.NewFile(&descriptorpb.FileDescriptorProto{Name: proto.String(name),
			MessageType: []*descriptorpb.DescriptorProto{{
				Name: proto.String("Order"), Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("id"),
					Number: proto.Int32(1), Type: types[name].Enum()}},
			}}}, nil))(t)
		order := dynamicpb.NewMessage(file.Messages().Get(0))
		order.Set(order.Descriptor().Fields().Get(0), protoreflect.ValueOf(value))
		b := servertest.Must(proto.Marshal(order))(t)
		sizes[name] = len(b)
		text := servertest.Must(protojson.Marshal(order))(t)
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
	conn := servertest.Must(grpc.NewClient("passthrough:///shop", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })))(t)
	defer conn.Close()

	out := new(wrapperspb.StringValue)
	require.NoError(t, conn.Invoke(t.Context(), "/shop.Orders/Get", wrapperspb.Int64(int64(middle)), out))
	assert.Equal(t, snowflake.Decode(middle).String(), out.GetValue())
	err := conn.Invoke(t.Context(), "/shop.Orders/Get", wrapperspb.Int64(-1), out)
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	assert.ErrorContains(t, err, "-1 is negative")
}
