package cause

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

type empty struct{ error }

func (empty) Unwrap() error { return nil }

func TestErrorsThatDifferInNumbersHaveOneCause(t *testing.T) {
	sentinel := errors.New("wiped")
	waits := func(left string) error { return fmt.Errorf("%w: newcomers wait for %s more", sentinel, left) }
	refused := fmt.Errorf("%w: %w", sentinel, errors.New("access denied for user7"))
	assert.Equal(t, Of(waits("2m10s")), Of(waits("1m9s")))
	assert.Equal(t, "access denied for user", Of(refused))
	assert.NotEqual(t, Of(refused), Of(waits("1s")))
	assert.Equal(t, "none inside", Of(empty{errors.New("none inside")}))
}

func TestKindsOfTexts(t *testing.T) {
	assert.Equal(t, Kind("port 80"), Kind("port 8080"))
	assert.NotEqual(t, Kind("port 80"), Kind("host 80"))
}
