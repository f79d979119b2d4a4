package driver_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The stores, in the sibling folders whose names end in lease, do not import package lease.
func TestStoresImportDriverAlone(t *testing.T) {
	const lease = "github.com/seed-5394e6b1/snowflake/lease"
	stores, files := 0, token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		store, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), "../"), "/")
		if !strings.HasSuffix(store, "lease") ||
			!strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			switch imported, _ := strconv.Unquote(spec.Path.Value); imported {
			case lease:
				t.Errorf("%s imports %s", path, imported)
			case lease + "/driver":
				stores++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if stores < 8 {
		t.Errorf("%d files import %s/driver", stores, lease)
	}
}
