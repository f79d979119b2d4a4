package recipes

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.yaml.in/yaml/v3"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/typed"
)

type Order struct{}

func (Order) Prefix() string { return "order" }

type OrderID = typed.ID[Order]

const fewest, middle, most = snowflake.ID(1), snowflake.ID(117469438034313216), snowflake.ID(9223372036854775807)

// Event is the value that the recipes encode.
type Event struct {
	ID    snowflake.ID   `json:"id" yaml:"id" msgpack:"id" cbor:"id"`
	Order OrderID        `json:"order" yaml:"order" msgpack:"order" cbor:"order"`
	Also  []snowflake.ID `json:"also" yaml:"also" msgpack:"also" cbor:"also"`
}

var event = Event{middle, OrderID(middle), []snowflake.ID{0, most}}

func TestYAML(t *testing.T) {
	b := servertest.Must(yaml.Marshal(event))(t)
	assert.Equal(t, `id: "117469438034313216"
order: order_038ANTKF00000
also:
    - "0"
    - "9223372036854775807"
`, string(b))
	var back Event
	require.NoError(t, yaml.Unmarshal(b, &back))
	assert.Equal(t, event, back)

	// Without quotes, as people write it, an ID is read just as strictly.
	require.NoError(t, yaml.Unmarshal([]byte("id: 117469438034313216"), &back))
	for _, bad := range []string{"id: -1", "id: 0x10", "id: 1_000", "id: 007", "id: 1.5", "id: yes", "order: user_038ANTKF00000"} {
		assert.Error(t, yaml.Unmarshal([]byte(bad), &back), bad)
	}
}

// vmihailenco/msgpack writes the texts, as bytes.
func TestMsgpack(t *testing.T) {
	b := servertest.Must(msgpack.Marshal(event))(t)
	var back Event
	require.NoError(t, msgpack.Unmarshal(b, &back))
	assert.Equal(t, event, back)
	var loose map[string]any
	require.NoError(t, msgpack.Unmarshal(b, &loose))
	assert.Equal(t, []byte("117469438034313216"), loose["id"])
	assert.Equal(t, []byte("order_038ANTKF00000"), loose["order"])
}

// fxamacker/cbor writes the texts, as bytes; and integers or texts if it is told to. It reads each.
func TestCBOR(t *testing.T) {
	all := cbor.DecOptions{TextUnmarshaler: cbor.TextUnmarshalerTextString}
	for _, tt := range []struct {
		write     cbor.EncOptions
		read      cbor.DecOptions
		id, order any
	}{
		{cbor.EncOptions{}, cbor.DecOptions{}, []byte("117469438034313216"), []byte("order_038ANTKF00000")},
		{cbor.EncOptions{BinaryMarshaler: cbor.BinaryMarshalerNone}, cbor.DecOptions{}, uint64(middle), uint64(middle)},
		{cbor.EncOptions{BinaryMarshaler: cbor.BinaryMarshalerNone, TextMarshaler: cbor.TextMarshalerTextString}, all,
			"117469438034313216", "order_038ANTKF00000"},
	} {
		write := servertest.Must(tt.write.EncMode())(t)
		b := servertest.Must(write.Marshal(event))(t)
		var loose map[string]any
		require.NoError(t, cbor.Unmarshal(b, &loose))
		assert.Equal(t, tt.id, loose["id"])
		assert.Equal(t, tt.order, loose["order"])
		for _, options := range []cbor.DecOptions{tt.read, all} {
			read := servertest.Must(options.DecMode())(t)
			var back Event
			require.NoError(t, read.Unmarshal(b, &back))
			assert.Equal(t, event, back)
		}
		keys := map[snowflake.ID]OrderID{middle: OrderID(most)}
		b = servertest.Must(write.Marshal(keys))(t)
		read := servertest.Must(tt.read.DecMode())(t)
		var keysBack map[snowflake.ID]OrderID
		require.NoError(t, read.Unmarshal(b, &keysBack))
		assert.Equal(t, keys, keysBack)
	}
}

func TestGob(t *testing.T) {
	var b bytes.Buffer
	keys, keysBack := map[snowflake.ID]OrderID{middle: OrderID(most)}, map[snowflake.ID]OrderID(nil)
	enc, dec := gob.NewEncoder(&b), gob.NewDecoder(&b)
	require.NoError(t, enc.Encode(event))
	require.NoError(t, enc.Encode(keys))
	var back Event
	require.NoError(t, dec.Decode(&back))
	require.NoError(t, dec.Decode(&keysBack))
	assert.Equal(t, event, back)
	assert.Equal(t, keys, keysBack)
	require.ErrorIs(t, enc.Encode(snowflake.ID(-1)), snowflake.ErrInvalidID)

	// What was written when the field was an int64.
	b.Reset()
	require.NoError(t, gob.NewEncoder(&b).Encode(struct{ ID int64 }{int64(middle)}))
	old := b.Bytes()
	assert.Error(t, gob.NewDecoder(bytes.NewReader(old)).Decode(&back))
	var number struct{ ID int64 }
	require.NoError(t, gob.NewDecoder(bytes.NewReader(old)).Decode(&number))
	assert.Equal(t, int64(middle), number.ID)
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

// TestWithTheTagFull runs the tests of gin, ent, bun and the libraries of kinds_full_test.go, whose
// files have the tag. With gin's own tag nomsgpack its encoding, which is not used here, is left
// out.
func TestWithTheTagFull(t *testing.T) {
	depth.NeedFull(t, "these libraries take minutes of processor time to compile")
	runs(t, "TestHTTP/gin", nil, "-tags", "full,nomsgpack", "-run", "^Test(HTTP|PostgreSQL)$/(gin|ent|bun)", ".")
	runs(t, "TestReadersOfOtherLibrariesAreStrict/huma", nil, "-tags", "full,nomsgpack", "-run", full.String(), ".")
}

// full matches the tests of kinds_test.go and kinds_full_test.go.
var full = regexp.MustCompile("^Test(Readers|Writers|Others|WhatRounds|Option|Omitted|GraphQL|Validator|Claims)")

// runs runs go test with other settings, and checks that a test was run.
func runs(t *testing.T, test string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-v"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: "+test)
}
