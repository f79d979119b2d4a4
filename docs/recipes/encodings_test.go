package recipes

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.yaml.in/yaml/v3"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/typed"
)

type Order struct{}

func (Order) Prefix() string { return "order" }

type OrderID = typed.ID[Order]

const fewest, middle, most = snowflake.ID(1), snowflake.ID(117469438034313216), snowflake.ID(9223372036854775807)

// Event is what the recipes encode.
type Event struct {
	ID    snowflake.ID   `json:"id" yaml:"id" msgpack:"id" cbor:"id"`
	Order OrderID        `json:"order" yaml:"order" msgpack:"order" cbor:"order"`
	Also  []snowflake.ID `json:"also" yaml:"also" msgpack:"also" cbor:"also"`
}

var event = Event{middle, OrderID(middle), []snowflake.ID{0, most}}

func TestYAML(t *testing.T) {
	b, err := yaml.Marshal(event)
	require.NoError(t, err)
	assert.Equal(t, `id: "117469438034313216"
order: order_038ANTKF00000
also:
    - "0"
    - "9223372036854775807"
`, string(b))
	var back Event
	require.NoError(t, yaml.Unmarshal(b, &back))
	assert.Equal(t, event, back)

	// Also without quotes, as people write it; and as strict.
	require.NoError(t, yaml.Unmarshal([]byte("id: 117469438034313216"), &back))
	for _, bad := range []string{"id: -1", "id: 0x10", "id: 1_000", "id: 007", "id: 1.5", "id: yes", "order: user_038ANTKF00000"} {
		assert.Error(t, yaml.Unmarshal([]byte(bad), &back), bad)
	}
}

// vmihailenco/msgpack writes the texts, as bytes.
func TestMsgpack(t *testing.T) {
	b, err := msgpack.Marshal(event)
	require.NoError(t, err)
	var back Event
	require.NoError(t, msgpack.Unmarshal(b, &back))
	assert.Equal(t, event, back)
	var loose map[string]any
	require.NoError(t, msgpack.Unmarshal(b, &loose))
	assert.Equal(t, []byte("117469438034313216"), loose["id"])
	assert.Equal(t, []byte("order_038ANTKF00000"), loose["order"])
}

// fxamacker/cbor writes integers, and texts if it is told to.
func TestCBOR(t *testing.T) {
	b, err := cbor.Marshal(event)
	require.NoError(t, err)
	var back Event
	require.NoError(t, cbor.Unmarshal(b, &back))
	assert.Equal(t, event, back)
	var loose map[string]any
	require.NoError(t, cbor.Unmarshal(b, &loose))
	assert.Equal(t, uint64(middle), loose["id"])
	assert.Equal(t, uint64(middle), loose["order"], "the prefix is not in it")

	write, err := cbor.EncOptions{TextMarshaler: cbor.TextMarshalerTextString}.EncMode()
	require.NoError(t, err)
	read, err := cbor.DecOptions{TextUnmarshaler: cbor.TextUnmarshalerTextString}.DecMode()
	require.NoError(t, err)
	b, err = write.Marshal(event)
	require.NoError(t, err)
	back = Event{}
	require.NoError(t, read.Unmarshal(b, &back))
	assert.Equal(t, event, back)
	require.NoError(t, cbor.Unmarshal(b, &loose))
	assert.Equal(t, "order_038ANTKF00000", loose["order"])
}

func TestSlog(t *testing.T) {
	var b bytes.Buffer
	log, id := slog.New(slog.NewJSONHandler(&b, nil)), middle
	log.Info("paid", "id", id, "parts", snowflake.Decode(id), "order", OrderID(id))
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line))
	assert.Equal(t, "117469438034313216", line["id"], "a string, that no reader of logs rounds")
	assert.Equal(t, "order_038ANTKF00000", line["order"])
	assert.Contains(t, line["parts"], "worker")
}

func TestOpenTelemetry(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	_, span := provider.Tracer("shop").Start(t.Context(), "pay")
	id := middle
	span.SetAttributes(attribute.Stringer("order.id", id))
	span.End()
	require.NoError(t, provider.ForceFlush(t.Context()))
	require.Len(t, spans.GetSpans(), 1)
	assert.Equal(t, []attribute.KeyValue{attribute.String("order.id", "117469438034313216")}, spans.GetSpans()[0].Attributes)
}

// TestJSONv2 runs the tests of the folder jsonv2 with the experiment, in which
// encoding/json/v2 is.
func TestJSONv2(t *testing.T) {
	depth.NeedFull(t, "it builds the standard library anew")
	test := exec.Command("go", "test", "-v", "./jsonv2")
	test.Env = append(os.Environ(), "GOEXPERIMENT=jsonv2")
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.True(t, strings.Contains(string(out), "--- PASS: TestJSONv2"), "%s", out)
}
