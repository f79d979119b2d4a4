package recipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/seed-5394e6b1/snowflake"
)

func newGenerator(t testing.TB) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(7, nil)
	require.NoError(t, err)
	return gen
}

func nextID(t testing.TB, gen *snowflake.Generator) snowflake.ID {
	t.Helper()
	id, err := gen.NextID()
	require.NoError(t, err)
	return id
}

// NewGenerator is a provider for wire.Build(NewGenerator, ...) and for fx.Provide.
func NewGenerator() (*snowflake.Generator, error) { return snowflake.New(7, nil) }

func TestInjected(t *testing.T) {
	var id snowflake.ID
	var err error
	app := fx.New(fx.NopLogger,
		fx.Provide(NewGenerator),
		fx.Invoke(func(gen *snowflake.Generator) { id, err = gen.NextID() }))
	require.NoError(t, app.Err())
	require.NoError(t, err)
	assert.Equal(t, 7, snowflake.Decode(id).Worker)
}
