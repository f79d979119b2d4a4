package natslease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

func init() {
	answerTime = depth.Of(time.Second, answerTime)
	lookEvery = 2 * time.Second
}
