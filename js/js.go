// Package js embeds the source of snowflake.js, for Go programs that serve it.
package js

import _ "embed"

//go:embed snowflake.js
var source string

// Source returns the text of snowflake.js, an ES module.
func Source() string { return source }
