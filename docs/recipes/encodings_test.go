package recipes

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"go.opentelemetry.io/otel/attribute"
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
	assert.Equal(t, attribute.String("order.id", "117469438034313216"), attribute.Stringer("order.id", middle))
}

// TestJSONv2 runs the tests of the folder jsonv2 with the experiment, in which
// encoding/json/v2 is.
func TestJSONv2(t *testing.T) {
	depth.NeedFull(t, "it builds the standard library anew")
	runs(t, "TestJSONv2", []string{"GOEXPERIMENT=jsonv2"}, "./jsonv2")
}

// TestWithTheTagFull runs the tests of gin, ent and bun, whose files have the tag. With gin's own tag nomsgpack its
// encoding, which is not used here, is left out.
func TestWithTheTagFull(t *testing.T) {
	depth.NeedFull(t, "gin, ent and bun take a minute of processor time to compile")
	runs(t, "TestHTTP/gin", nil, "-tags", "full,nomsgpack", "-run", "^Test(HTTP|PostgreSQL)$/(gin|ent|bun)", ".")
}

// runs runs go test in another way, and checks that a test was run.
func runs(t *testing.T, test string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-v"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: "+test)
}
