package browser

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// The description is valid by the OpenAPI Initiative's schema, which is in testdata, and each of
// its schemas by JSON Schema's own.
func TestOpenAPIIsValidByThePublishedSchema(t *testing.T) {
	// The server answers GET /openapi.json with this file.
	text, err := os.ReadFile("../../../../server/openapi.json")
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	file, err := os.Open("testdata/oas31-schema.json")
	require.NoError(t, err)
	defer file.Close()
	published, err := jsonschema.UnmarshalJSON(file)
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("https://spec.openapis.org/oas/3.1/schema/2022-10-07", published))
	require.NoError(t, compiler.AddResource("https://localhost/openapi.json", document))
	schema, err := compiler.Compile("https://spec.openapis.org/oas/3.1/schema/2022-10-07")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(document))
	var names struct {
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal(text, &names))
	require.NotEmpty(t, names.Components.Schemas)
	for name := range names.Components.Schemas {
		_, err := compiler.Compile("https://localhost/openapi.json#/components/schemas/" + name)
		require.NoError(t, err, name)
	}
}
