// Package prefix checks the prefixes of typed IDs, such as order in order_038ANTKF00000.
package prefix

import "fmt"

const most = 63

// Wrong returns the fault of a prefix, or "" if it has none. A good prefix has 1 to 63 of
// a-z, 0-9 and underscores, with a letter first and no underscore last.
func Wrong(prefix string) string {
	if len(prefix) == 0 {
		return "is empty"
	}
	if len(prefix) > most {
		return fmt.Sprintf("has %d characters; at most %d are allowed", len(prefix), most)
	}
	for i := range len(prefix) {
		if c := prefix[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return "has a character other than a-z, 0-9 and _"
		}
	}
	if prefix[0] < 'a' {
		return "does not begin with a letter"
	}
	if prefix[len(prefix)-1] == '_' {
		return "ends with an underscore"
	}
	return ""
}
