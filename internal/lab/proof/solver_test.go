//go:build unix && go1.25

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

func TestTheInvariantIsInductive(t *testing.T) {
	depth.NeedFull(t, "takes half a minute")
	n, err := prove(t.Context(), servertest.Program(t, "z3", "z3"), lease)
	require.NoError(t, err)
	assert.Greater(t, n, 500)
}

// If a guard is left out and there is no counterexample, the guard is useless, or the steps cannot
// happen.
func TestEachGuardIsNeeded(t *testing.T) {
	depth.NeedFull(t, "takes minutes")
	z3 := servertest.Program(t, "z3", "z3")
	all := guards(lease)
	require.Len(t, all, 20)
	for _, guard := range all {
		step, err := counterexample(t.Context(), z3, guard)
		require.NoError(t, err)
		t.Logf("without %s: %s", guard, step)
	}
}

// A counterexample in a small world counts only if the guard makes the difference.
func TestSmallWorldsAgreeWithTheProof(t *testing.T) {
	depth.NeedFull(t, "takes half a minute")
	answers, err := ask(t.Context(), servertest.Program(t, "z3", "z3"), small(lease, scopes[0]))
	require.NoError(t, err)
	assert.Len(t, answers, 18)
	for _, a := range answers {
		assert.Equal(t, "unsat", a.says, a.question)
	}
}
