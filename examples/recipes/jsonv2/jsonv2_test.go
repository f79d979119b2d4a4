//go:build goexperiment.jsonv2

package jsonv2

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/typed"
)

type order struct{}

func (order) Prefix() string { return "order" }

type event struct {
	ID    snowflake.ID                  `json:"id"`
	Order typed.ID[order]               `json:"order"`
	Left  snowflake.ID                  `json:"left,omitzero"`
	Null  *snowflake.ID                 `json:"null"`
	By    map[snowflake.ID]snowflake.ID `json:"by"`
}

func TestJSONv2(t *testing.T) {
	const id = snowflake.ID(117469438034313216)
	in := event{ID: id, Order: typed.New[order](id), By: map[snowflake.ID]snowflake.ID{7: 8}}
	b, err := json.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, `{"id":"117469438034313216","order":"order_038ANTKF00000","null":null,"by":{"7":"8"}}`, string(b))
	var out event
	require.NoError(t, json.Unmarshal(b, &out))
	assert.Equal(t, in, out)

	require.NoError(t, json.Unmarshal([]byte(`{"id":7}`), &out), "a number, too")
	assert.Equal(t, snowflake.ID(7), out.ID)
	for _, bad := range []string{
		`{"id":-1}`, `{"id":1.5}`, `{"id":"07"}`, `{"id":9223372036854775808}`, `{"order":7}`,
		`{"order":"user_038ANTKF00000"}`,
	} {
		var refused *json.SemanticError
		require.ErrorAs(t, json.Unmarshal([]byte(bad), &out), &refused, bad)
		assert.Equal(t, jsontext.Pointer(bad[1:strings.Index(bad, ":")]), `"`+refused.JSONPointer[1:]+`"`, "the field")
	}
}
