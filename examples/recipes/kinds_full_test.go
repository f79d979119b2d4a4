//go:build full

package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/bytedance/sonic"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/dop251/goja"
	"github.com/go-playground/validator/v10"
	"github.com/go-viper/mapstructure/v2"
	goccy "github.com/goccy/go-json"
	"github.com/gofiber/fiber/v3"
	"github.com/golang-jwt/jwt/v5"
	googleschema "github.com/google/jsonschema-go/jsonschema"
	"github.com/hamba/avro/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"github.com/spf13/viper"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/swaggo/swag"
	"github.com/urfave/cli/v3"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed-5394e6b1/snowflake"
)

// ParamID is a snowflake.ID for frameworks that look at the kind of a parameter: it has the ID's
// methods, and the kind of a struct.
type ParamID struct{ snowflake.ID }

// ParamOrder is the same for a typed ID.
type ParamOrder struct{ OrderID }

func init() {
	readers["fiber"] = func(_ *testing.T, both *Both, field, text string) error {
		var err error
		app := fiber.New()
		app.Get("/", func(c fiber.Ctx) error {
			err = c.Bind().Query(both)
			return nil
		})
		_, sent := app.Test(httptest.NewRequest("GET", "/?"+url.Values{field: {text}}.Encode(), nil))
		return errors.Join(sent, err)
	}
	readers["huma with a wrapper"] = func(_ *testing.T, both *Both, field, text string) error {
		var in struct {
			ID    ParamID    `query:"id"`
			Order ParamOrder `query:"order"`
		}
		err := humaReads(&in, "/?"+url.Values{field: {text}}.Encode())
		both.ID, both.Order = in.ID.ID, in.Order.OrderID
		return err
	}
	readers["viper with mapstructure 2.5"] = func(_ *testing.T, both *Both, field, text string) error {
		config := viper.New()
		config.Set(field, text)
		return config.Unmarshal(both)
	}
	readers["koanf"] = func(t *testing.T, both *Both, field, text string) error {
		config := koanf.New(".")
		require.NoError(t, config.Load(confmap.Provider(map[string]any{field: text}, "."), nil))
		return config.Unmarshal("", both)
	}
	readers["kong"] = func(t *testing.T, both *Both, field, text string) error {
		parser, err := kong.New(both)
		require.NoError(t, err)
		_, err = parser.Parse([]string{"--" + field + "=" + text})
		return err
	}
	readers["urfave/cli"] = func(t *testing.T, both *Both, field, text string) error {
		command := &cli.Command{
			Flags:  []cli.Flag{&cli.TextFlag{Name: "id", Value: &both.ID}, &cli.TextFlag{Name: "order", Value: &both.Order}},
			Writer: io.Discard, ErrWriter: io.Discard,
			Action: func(context.Context, *cli.Command) error { return nil },
		}
		return command.Run(t.Context(), []string{"orders", "--" + field + "=" + text})
	}
	readers["dynamodb with texts"] = func(_ *testing.T, both *Both, field, text string) error {
		item := map[string]types.AttributeValue{field: &types.AttributeValueMemberS{Value: text}}
		return attributevalue.UnmarshalMapWithOptions(item, both, func(o *attributevalue.DecoderOptions) { o.UseEncodingUnmarshalers = true })
	}
	readers["gqlgen, a variable"] = func(t *testing.T, both *Both, field, text string) error {
		return readGraphQL(t, both, field, "$v", map[string]any{"v": text})
	}
	readers["gqlgen, in the query"] = func(t *testing.T, both *Both, field, text string) error {
		return readGraphQL(t, both, field, fmt.Sprintf("%q", text), nil)
	}

	writers["sonic"] = written{sonic.Marshal, inJSON}
	writers["goccy"] = written{goccy.Marshal, inJSON}
	writers["jwt.MapClaims"] = written{func(v any) ([]byte, error) {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"id": v.(Both).ID, "order": v.(Both).Order}).SignedString([]byte("key"))
		if err != nil {
			return nil, err
		}
		return jwt.NewParser().DecodeSegment(strings.Split(token, ".")[1])
	}, inJSON}
	writers["zap"] = written{func(v any) ([]byte, error) {
		var b bytes.Buffer
		logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&b), zap.InfoLevel))
		logger.Info("", zap.Any("id", v.(Both).ID), zap.Stringer("order", v.(Both).Order))
		return b.Bytes(), nil
	}, inJSON}
	writers["zerolog"] = written{func(v any) ([]byte, error) {
		var b bytes.Buffer
		logger := zerolog.New(&b)
		logger.Log().Any("id", v.(Both).ID).Stringer("order", v.(Both).Order).Send()
		return b.Bytes(), nil
	}, inJSON}
	writers["logrus"] = written{func(v any) ([]byte, error) {
		return (&logrus.JSONFormatter{DisableTimestamp: true}).Format(&logrus.Entry{Logger: logrus.New(),
			Data: logrus.Fields{"id": v.(Both).ID, "order": v.(Both).Order}})
	}, `{"id":"1179195020662824977","order":"order_10QAQKYKR8R0H","level":"panic","msg":""}`}
	writers["bson"] = written{func(v any) ([]byte, error) { return bson.MarshalExtJSON(v, true, false) },
		`{"id":{"$numberLong":"1179195020662824977"},"order":{"$numberLong":"1179195020662824977"}}`}
	writers["dynamodb"] = written{func(v any) ([]byte, error) {
		item, err := attributevalue.MarshalMap(v)
		return fmt.Appendf(nil, "%T %v", item["id"], item["id"].(*types.AttributeValueMemberN).Value), err
	}, "*types.AttributeValueMemberN 1179195020662824977"}
	writers["dynamodb with texts"] = written{func(v any) ([]byte, error) {
		item, err := attributevalue.MarshalMapWithOptions(v, func(o *attributevalue.EncoderOptions) { o.UseEncodingMarshalers = true })
		return fmt.Appendf(nil, "%T %v", item["order"], item["order"].(*types.AttributeValueMemberS).Value), err
	}, "*types.AttributeValueMemberS order_10QAQKYKR8R0H"}
	for _, as := range []string{"long", "string"} {
		writers["avro: "+as] = written{func(v any) ([]byte, error) {
			schema := avro.MustParse(fmt.Sprintf(
				`{"type":"record","name":"both","fields":[{"name":"id","type":%q},{"name":"order","type":%[1]q}]}`, as))
			b, err := avro.Marshal(schema, v)
			if err != nil {
				return nil, err
			}
			var back Both
			if err := avro.Unmarshal(schema, b, &back); err != nil {
				return nil, err
			}
			return json.Marshal(back)
		}, inJSON}
	}
	writers["google/jsonschema-go"] = written{func(v any) ([]byte, error) {
		text := &googleschema.Schema{Type: "string"}
		schema, err := googleschema.ForType(reflect.TypeOf(v), &googleschema.ForOptions{TypeSchemas: map[reflect.Type]*googleschema.Schema{
			reflect.TypeFor[snowflake.ID](): text, reflect.TypeFor[OrderID](): text}})
		if err != nil {
			return nil, err
		}
		return json.Marshal(schema.Properties)
	}, `{"id":{"type":"string"},"order":{"type":"string"}}`}
	writers["gqlgen"] = written{func(v any) ([]byte, error) {
		var b bytes.Buffer
		fields := graphql.NewFieldSet([]graphql.CollectedField{{Field: &ast.Field{Alias: "id"}}, {Field: &ast.Field{Alias: "order"}}})
		fields.Values = []graphql.Marshaler{v.(Both).ID, v.(Both).Order}
		fields.MarshalGQL(&b)
		return b.Bytes(), nil
	}, inJSON}
	writers["swag with a tag"] = written{func(any) ([]byte, error) {
		parser := swag.New(swag.SetDebugger(log.New(io.Discard, "", 0)))
		if err := parser.ParseAPI("testdata/swag", "order.go", 1); err != nil {
			return nil, err
		}
		return json.Marshal(parser.GetSwagger().Definitions["swag.Order"].Properties)
	}, `{"id":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}}}`}

	leftOvers["sonic"] = codec{sonic.Marshal, sonic.Unmarshal, `{"id":"1179195020662824977"}`}
	leftOvers["goccy"] = codec{goccy.Marshal, goccy.Unmarshal, `{"id":"1179195020662824977"}`}
}

// humaReads sends a request to an API whose one operation reads In.
func humaReads[In any](in *In, target string) error {
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("orders", "1"))
	huma.Register(api, huma.Operation{Method: http.MethodGet, Path: "/"}, func(_ context.Context, got *In) (*struct{}, error) {
		*in = *got
		return nil, nil
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	if w.Code >= 400 {
		return fmt.Errorf("%d: %s", w.Code, w.Body)
	}
	return nil
}

// viper.DecodeHook replaces the hooks of viper, which read durations and lists.
func TestOthersHooksAreKept(t *testing.T) {
	config := viper.New()
	for key, text := range map[string]string{"id": wide.String(), "order": wideOrder, "timeout": "5s", "hosts": "a,b"} {
		config.Set(key, text)
	}
	type Settings struct {
		Both    `mapstructure:",squash"`
		Timeout time.Duration
		Hosts   []string
	}
	want := Settings{Both{ID: wide, Order: OrderID(wide)}, 5 * time.Second, []string{"a", "b"}}
	var settings Settings
	require.NoError(t, config.Unmarshal(&settings))
	assert.Equal(t, want, settings)

	before25 := func(c *mapstructure.DecoderConfig) { c.DisableUnmarshaler = true }
	hook := viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(mapstructure.TextUnmarshallerHookFunc(),
		mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToSliceHookFunc(",")))
	settings = Settings{}
	require.NoError(t, config.Unmarshal(&settings, hook, before25))
	assert.Equal(t, want, settings)
	assert.Error(t, config.Unmarshal(&settings, viper.DecodeHook(mapstructure.TextUnmarshallerHookFunc()), before25), "5s")
}

// readGraphQL hands a field the value that gqlgen hands it for an argument.
func readGraphQL(t *testing.T, both *Both, field, argument string, variables map[string]any) error {
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: `type Query { order(key: ID): ID }`})
	require.NoError(t, err)
	declared := ""
	if variables != nil {
		declared = "($v: ID)"
	}
	query, errs := gqlparser.LoadQuery(schema, "query"+declared+" { order(key: "+argument+") }")
	require.Empty(t, errs)
	arguments := query.Operations[0].SelectionSet[0].(*ast.Field).ArgumentMap(variables)
	target := map[string]graphql.Unmarshaler{"id": &both.ID, "order": &both.Order}[field]
	return target.UnmarshalGQL(arguments["key"])
}

func TestGraphQLIntegers(t *testing.T) {
	var both Both
	require.NoError(t, readGraphQL(t, &both, "id", wide.String(), nil))
	require.NoError(t, readGraphQL(t, &both, "id", "$v", map[string]any{"v": json.Number(wide.String())}))
	assert.Equal(t, wide, both.ID)
	assert.Error(t, readGraphQL(t, &both, "id", "-5", nil))
	assert.Error(t, readGraphQL(t, &both, "id", "$v", map[string]any{"v": float64(wide)}))
	assert.Error(t, readGraphQL(t, &both, "order", "7", nil))
}

// What the recipes keep programs from. If one of these fails, a recipe may be simpler.
func TestOthersThatLookAtTheKind(t *testing.T) {
	var in struct {
		ID snowflake.ID `query:"id"`
	}
	assert.ErrorContains(t, humaReads(&in, "/?id=7"), "422")
	assert.Panics(t, func() {
		_ = humaReads(&struct {
			IDs []snowflake.ID `query:"ids"`
		}{}, "/?ids=7")
	})
	assert.Panics(t, func() {
		_ = humaReads(&struct {
			IDs []ParamID `query:"ids"`
		}{}, "/?ids=7")
	})

	schema, err := googleschema.For[Both](nil)
	require.NoError(t, err)
	assert.Equal(t, "integer", schema.Properties["id"].Type)

	var loose map[string]any
	item := map[string]types.AttributeValue{"id": &types.AttributeValueMemberN{Value: wide.String()}}
	require.NoError(t, attributevalue.UnmarshalMap(item, &loose))
	assert.Equal(t, float64(wide), loose["id"])

	vm := goja.New()
	for name, value := range map[string]any{"id": wide, "number": int64(wide), "text": wide.String()} {
		require.NoError(t, vm.Set(name, value))
	}
	got, err := vm.RunString("JSON.stringify([id, number, text])")
	require.NoError(t, err)
	assert.Equal(t, `[1179195020662825000,1179195020662825000,"1179195020662824977"]`, got.String())
}

func TestOmittedOptionString(t *testing.T) {
	b, err := goccy.Marshal(struct {
		ID snowflake.ID `json:"id,omitempty,string"`
	}{})
	require.NoError(t, err)
	assert.Equal(t, `{"id":"0"}`, string(b))
}

func TestMongoDB(t *testing.T) {
	read := func(document any) (both Both, err error) {
		b, err := bson.Marshal(document)
		require.NoError(t, err)
		return both, bson.Unmarshal(b, &both)
	}
	both := Both{wide, OrderID(wide)}
	for _, document := range []any{both, bson.M{"id": wide.String(), "order": int64(wide)}} {
		back, err := read(document)
		require.NoError(t, err)
		assert.Equal(t, both, back)
	}
	back, err := read(bson.M{"id": 117.0, "order": int32(117)})
	require.NoError(t, err)
	assert.Equal(t, Both{117, 117}, back)
	b, err := bson.Marshal(both)
	require.NoError(t, err)
	var loose bson.M
	require.NoError(t, bson.Unmarshal(b, &loose))
	assert.Equal(t, bson.M{"id": int64(wide), "order": int64(wide)}, loose)
	for _, field := range []string{"id", "order"} {
		_, err := read(bson.M{field: float64(wide)})
		assert.ErrorIs(t, err, snowflake.ErrInvalidID)
		assert.ErrorContains(t, err, "the double 1179195020662825000")
		for _, text := range hostile {
			_, err := read(bson.M{field: text})
			assert.ErrorIs(t, err, snowflake.ErrInvalidID, text)
		}
	}
	var optional struct{ ID, Other *snowflake.ID }
	b, err = bson.Marshal(bson.M{"id": nil, "other": int64(wide)})
	require.NoError(t, err)
	require.NoError(t, bson.Unmarshal(b, &optional))
	assert.Nil(t, optional.ID)
	assert.Equal(t, wide, *optional.Other)

	relaxed, err := bson.MarshalExtJSON(both, false, false)
	require.NoError(t, err)
	assert.Contains(t, string(relaxed), `"id":1179195020662824977,`, "a number, for JavaScript to round")
}

// A validator sees the number: 0 is an ID that is missing.
func TestValidator(t *testing.T) {
	type order struct {
		ID    snowflake.ID `validate:"required,gt=0"`
		Order OrderID      `validate:"required"`
	}
	assert.NoError(t, validator.New().Struct(order{wide, OrderID(wide)}))
	assert.Error(t, validator.New().Struct(order{0, OrderID(wide)}))
	assert.Error(t, validator.New().Struct(order{wide, 0}))
	assert.Error(t, validator.New().Struct(order{-1, OrderID(wide)}))
}

func TestClaims(t *testing.T) {
	key := func(*jwt.Token) (any, error) { return []byte("key"), nil }
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"id": int64(wide)}).SignedString([]byte("key"))
	require.NoError(t, err)
	loose, err := jwt.Parse(token, key)
	require.NoError(t, err)
	assert.Equal(t, float64(wide), loose.Claims.(jwt.MapClaims)["id"], "rounded")
	exact, err := jwt.NewParser(jwt.WithJSONNumber()).Parse(token, key)
	require.NoError(t, err)
	assert.Equal(t, json.Number(wide.String()), exact.Claims.(jwt.MapClaims)["id"])
}
