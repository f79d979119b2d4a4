package recipes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-playground/form/v4"
	"github.com/go-viper/mapstructure/v2"
	"github.com/google/jsonapi"
	"github.com/gorilla/schema"
	"github.com/invopop/jsonschema"
	goflags "github.com/jessevdk/go-flags"
	jsoniter "github.com/json-iterator/go"
	"github.com/kelseyhightower/envconfig"
	"github.com/labstack/echo/v4"
	"github.com/oapi-codegen/runtime"
	segmentio "github.com/segmentio/encoding/json"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/typed"
)

// Both is the value that the libraries of these tables read and write.
type Both struct {
	ID    snowflake.ID `json:"id" form:"id" query:"id" schema:"id" koanf:"id" env:"IDS_ID" yaml:"id" toml:"id" bson:"id" dynamodbav:"id" avro:"id" parquet:"id"`
	Order OrderID      `json:"order" form:"order" query:"order" schema:"order" koanf:"order" env:"IDS_ORDER" yaml:"order" toml:"order" bson:"order" dynamodbav:"order" avro:"order" parquet:"order"`
}

// wide is above 2^53: as a float64 it is 1179195020662824960.
const (
	wide      = snowflake.ID(1179195020662824977)
	wideOrder = "order_10QAQKYKR8R0H"
)

// hostile are texts that some readers of numbers take, and ParseID refuses.
var hostile = []string{"0117", "-5", "1e3", "0x10", "+7", "1_000", "9223372036854775808"}

// A reader reads the text of a field, id or order, into both.
type reader func(t *testing.T, both *Both, field, text string) error

// readers read IDs as strictly as ParseID and typed.Parse do.
var readers = map[string]reader{
	"echo": func(_ *testing.T, both *Both, field, text string) error {
		r := httptest.NewRequest("GET", "/?"+url.Values{field: {text}}.Encode(), nil)
		return new(echo.DefaultBinder).BindQueryParams(echo.New().NewContext(r, nil), both)
	},
	"gorilla/schema": func(_ *testing.T, both *Both, field, text string) error {
		return schema.NewDecoder().Decode(both, url.Values{field: {text}})
	},
	"oapi-codegen, in the path": func(_ *testing.T, both *Both, field, text string) error {
		options := runtime.BindStyledParameterOptions{ParamLocation: runtime.ParamLocationPath}
		if field == "id" {
			return runtime.BindStyledParameterWithOptions("simple", field, text, &both.ID, options)
		}
		return runtime.BindStyledParameterWithOptions("simple", field, text, &both.Order, options)
	},
	"oapi-codegen, in the query": func(_ *testing.T, both *Both, field, text string) error {
		query, options := url.Values{field: {text}}, runtime.BindQueryParameterOptions{}
		if field == "id" {
			return runtime.BindQueryParameterWithOptions("form", true, true, field, query, &both.ID, options)
		}
		return runtime.BindQueryParameterWithOptions("form", true, true, field, query, &both.Order, options)
	},
	"go-playground/form with two functions": func(_ *testing.T, both *Both, field, text string) error {
		decoder := form.NewDecoder()
		decoder.RegisterCustomTypeFunc(func(values []string) (any, error) { return snowflake.ParseID(values[0]) }, snowflake.ID(0))
		decoder.RegisterCustomTypeFunc(func(values []string) (any, error) { return typed.Parse[Order](values[0]) }, OrderID(0))
		return decoder.Decode(both, url.Values{field: {text}})
	},
	"mapstructure 2.5": func(_ *testing.T, both *Both, field, text string) error {
		return mapstructure.WeakDecode(map[string]any{field: text}, both)
	},
	"mapstructure 2.5 with the hook": func(t *testing.T, both *Both, field, text string) error {
		return weakly(t, both, field, text, mapstructure.TextUnmarshallerHookFunc(), false)
	},
	"mapstructure before 2.5 with the hook": func(t *testing.T, both *Both, field, text string) error {
		return weakly(t, both, field, text, mapstructure.TextUnmarshallerHookFunc(), true)
	},
	"envconfig": func(t *testing.T, both *Both, field, text string) error {
		t.Setenv("IDS_ID", "7")
		t.Setenv("IDS_ORDER", "order_0000000000007")
		t.Setenv("IDS_"+strings.ToUpper(field), text)
		return envconfig.Process("ids", both)
	},
	"pflag": func(_ *testing.T, both *Both, field, text string) error {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.TextVar(&both.ID, "id", both.ID, "")
		flags.TextVar(&both.Order, "order", both.Order, "")
		return flags.Parse([]string{"--" + field + "=" + text})
	},
	"go-flags with functions": func(_ *testing.T, both *Both, field, text string) error {
		flags := Flags{ID: both.ID.UnmarshalParam, Order: both.Order.UnmarshalParam}
		_, err := goflags.NewParser(&flags, goflags.None).ParseArgs([]string{"--" + field + "=" + text})
		return err
	},
}

// Flags are the flags that go-flags reads.
type Flags struct {
	ID    func(string) error `long:"id"`
	Order func(string) error `long:"order"`
}

// encoding/json ignores the option string only when it writes.
func TestOptionStringChangesWhatIsRead(t *testing.T) {
	var old struct {
		ID    snowflake.ID `json:"id,string"`
		Order OrderID      `json:"order,string"`
	}
	assert.Error(t, json.Unmarshal([]byte(`{"id":`+wide.String()+`}`), &old), "a JSON number")
	old.ID = wide
	require.NoError(t, json.Unmarshal([]byte(`{"id":"null"}`), &old))
	assert.Equal(t, wide, old.ID, "it takes the text for null, and leaves the field as it was")
	old.Order = OrderID(wide)
	b, err := json.Marshal(old)
	require.NoError(t, err)
	assert.Error(t, json.Unmarshal(b, &old), "a typed ID, %s", b)
	var read struct {
		ID snowflake.ID `json:"id,string"`
	}
	require.NoError(t, segmentio.Unmarshal([]byte(`{"id":"0117"}`), &read))
	assert.EqualValues(t, 117, read.ID)
}

// weakly decodes with mapstructure as viper does. Before release 2.5 it does not know
// UnmarshalMapstructure.
func weakly(t *testing.T, both *Both, field, text string, hook mapstructure.DecodeHookFunc, before25 bool) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		WeaklyTypedInput: true, DisableUnmarshaler: before25, DecodeHook: hook, Result: both})
	require.NoError(t, err)
	return decoder.Decode(map[string]any{field: text})
}

func TestReadersOfOtherLibrariesAreStrict(t *testing.T) {
	for library, read := range readers {
		t.Run(library, func(t *testing.T) {
			var both Both
			require.NoError(t, read(t, &both, "id", wide.String()))
			assert.Equal(t, wide, both.ID)
			require.NoError(t, read(t, &both, "order", wideOrder))
			assert.Equal(t, OrderID(wide), both.Order)
			for _, text := range hostile {
				assert.Error(t, read(t, &Both{}, "id", text), text)
			}
			assert.Error(t, read(t, &Both{}, "order", "7"), "a number has no prefix")
		})
	}
}

// looks read by the kind of the field, and make these numbers of the hostile texts, or an error.
var looks = map[string]struct {
	read  reader
	takes string
}{
	"go-playground/form": {func(_ *testing.T, both *Both, field, text string) error {
		return form.NewDecoder().Decode(both, url.Values{field: {text}})
	}, "117 -5 - - 7 - -"},
	"mapstructure before 2.5": {func(t *testing.T, both *Both, field, text string) error {
		return weakly(t, both, field, text, nil, true)
	}, "79 -5 - 16 7 1000 -"},
	"go-flags": {func(_ *testing.T, both *Both, _, text string) error {
		var flags struct {
			ID snowflake.ID `long:"id"`
		}
		_, err := goflags.NewParser(&flags, goflags.None).ParseArgs([]string{"--id=" + text})
		both.ID = flags.ID
		return err
	}, "79 -5 - 16 7 1000 -"},
	"google/jsonapi": {func(_ *testing.T, both *Both, _, text string) error {
		var in struct {
			ID snowflake.ID `jsonapi:"primary,orders"`
		}
		err := jsonapi.UnmarshalPayload(strings.NewReader(`{"data":{"type":"orders","id":"`+text+`"}}`), &in)
		both.ID = in.ID
		return err
	}, "117 -5 1000 - 7 1000 -9223372036854775808"},
}

// If one of these fails, the library has changed, and its recipe may be simpler.
func TestReadersThatLookAtTheKind(t *testing.T) {
	for library, look := range looks {
		t.Run(library, func(t *testing.T) {
			var takes []string
			for _, text := range hostile {
				var both Both
				if err := look.read(t, &both, "id", text); err != nil {
					takes = append(takes, "-")
				} else {
					takes = append(takes, fmt.Sprint(int64(both.ID)))
				}
			}
			assert.Equal(t, look.takes, strings.Join(takes, " "))
		})
	}
}

// written is how a library writes Both{wide, OrderID(wide)}, and what it should write.
type written struct {
	write func(v any) ([]byte, error)
	text  string
}

var writers = map[string]written{
	"jsoniter":  {jsoniter.Marshal, inJSON},
	"segmentio": {segmentio.Marshal, inJSON},
	"google/jsonapi with a string": {func(v any) ([]byte, error) {
		var b bytes.Buffer
		both := v.(Both)
		err := jsonapi.MarshalPayload(&b, &struct {
			ID    string  `jsonapi:"primary,orders"`
			Order OrderID `jsonapi:"attr,order"`
		}{both.ID.String(), both.Order})
		return bytes.TrimSpace(b.Bytes()), err
	}, `{"data":{"type":"orders","id":"1179195020662824977","attributes":{"order":"order_10QAQKYKR8R0H"}}}`},
	"invopop/jsonschema": {func(v any) ([]byte, error) {
		reflector := jsonschema.Reflector{DoNotReference: true, Anonymous: true}
		return json.Marshal(reflector.Reflect(v).Properties)
	}, `{"id":{"type":"string"},"order":{"type":"string"}}`},
	"structpb": {func(v any) ([]byte, error) {
		values, err := structpb.NewStruct(map[string]any{"id": v.(Both).ID.String(), "order": v.(Both).Order.String()})
		if err != nil {
			return nil, err
		}
		return values.MarshalJSON()
	}, inJSON},
}

const inJSON = `{"id":"1179195020662824977","order":"order_10QAQKYKR8R0H"}`

func TestWritersOfOtherLibrariesKeepTheText(t *testing.T) {
	for library, w := range writers {
		b, err := w.write(Both{wide, OrderID(wide)})
		require.NoError(t, err, library)
		if strings.HasPrefix(w.text, "{") {
			assert.JSONEq(t, w.text, string(b), library)
		} else {
			assert.Equal(t, w.text, string(b), library)
		}
	}
}

// What the recipes keep programs from. If one of these fails, a recipe may be simpler.
func TestWritersThatLookAtTheKind(t *testing.T) {
	type primary struct {
		ID snowflake.ID `jsonapi:"primary,orders"`
	}
	assert.Panics(t, func() { _ = jsonapi.MarshalPayload(new(bytes.Buffer), &primary{wide}) })
	var in primary
	require.NoError(t, jsonapi.UnmarshalPayload(strings.NewReader(`{"data":{"type":"orders","id":"1179195020662824977"}}`), &in))
	assert.Equal(t, snowflake.ID(1179195020662824960), in.ID, "rounded, without an error")

	_, err := structpb.NewValue(wide)
	assert.Error(t, err)
	number, err := structpb.NewValue(int64(wide))
	require.NoError(t, err)
	assert.NotEqual(t, int64(wide), int64(number.GetNumberValue()), "rounded, without an error")
}

func TestWhatRoundsInGo(t *testing.T) {
	text := `{"id":` + wide.String() + `}`
	for library, unmarshal := range map[string]func([]byte, any) error{
		"encoding/json": json.Unmarshal, "sigs.k8s.io/yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
	} {
		var loose map[string]any
		require.NoError(t, unmarshal([]byte(text), &loose), library)
		assert.Equal(t, map[string]any{"id": float64(wide)}, loose, library)
		var both Both
		require.NoError(t, unmarshal([]byte(text), &both), library)
		assert.Equal(t, wide, both.ID, library)
	}
	var loose map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&loose))
	assert.Equal(t, map[string]any{"id": json.Number(wide.String())}, loose)
}

// leftOvers write an ID whose field has kept the option string from when it was an int64.
var leftOvers = map[string]codec{
	"encoding/json": {json.Marshal, json.Unmarshal, `{"id":"1179195020662824977"}`},
	"jsoniter":      {jsoniter.Marshal, jsoniter.Unmarshal, `{"id":""1179195020662824977""}`},
	"segmentio":     {segmentio.Marshal, segmentio.Unmarshal, `{"id":"\"1179195020662824977\""}`},
}

type codec struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
	leftOver  string
}

func TestOptionStringIsDropped(t *testing.T) {
	type now struct {
		ID snowflake.ID `json:"id"`
	}
	for library, c := range leftOvers {
		b, err := c.marshal(struct {
			ID snowflake.ID `json:"id,string"`
		}{wide})
		require.NoError(t, err, library)
		assert.Equal(t, c.leftOver, string(b), library)
		b, err = c.marshal(now{wide})
		require.NoError(t, err, library)
		assert.Equal(t, `{"id":"1179195020662824977"}`, string(b), library)
		var back now
		require.NoError(t, c.unmarshal(b, &back), library)
		assert.Equal(t, wide, back.ID, library)
		for _, text := range hostile {
			assert.Error(t, c.unmarshal([]byte(`{"id":"`+text+`"}`), &back), "%s: %s", library, text)
		}
		assert.Error(t, c.unmarshal([]byte(`{"id":1.179195020662825e+18}`), &back), library)
	}
}
