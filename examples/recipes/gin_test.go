//go:build full

package recipes

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
)

func init() { frameworks["gin"] = ginHTTP() }

func ginHTTP() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/orders/:order/lines", func(c *gin.Context) {
		var line Line
		err := errors.Join(c.ShouldBindUri(&line), c.ShouldBindQuery(&line), c.ShouldBindJSON(&line))
		if err != nil {
			c.String(http.StatusBadRequest, err.Error())
			return
		}
		c.JSON(http.StatusOK, answer(line))
	})
	return engine
}
