package main

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A use is an import of one package of this repository by another.
type use struct {
	by, of string // the packages
	test   bool   // the importing file is a test
}

// uses returns the imports in all Go files that git knows, whatever system a file is for.
func (t *tree) uses() ([]use, error) {
	files, err := t.files()
	if err != nil {
		return nil, err
	}
	var uses []use
	for _, name := range files {
		if path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(t.dir, name), nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			of, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			if isSibling(of) {
				uses = append(uses, use{path.Join(root, path.Dir(name)), of, strings.HasSuffix(name, "_test.go")})
			}
		}
	}
	return uses, nil
}

// owner returns the folder of the module that a package belongs to.
func (t *tree) owner(pkg string) string { return t.moduleOf(path.Join(folder(pkg), "x.go")) }

// shared returns the internal packages that a user's build of one published module needs from another module. They
// must stay compatible, because the user may update the other module alone.
func (t *tree) shared() ([]string, error) {
	uses, err := t.uses()
	if err != nil {
		return nil, err
	}
	imports := make(map[string][]string)
	for _, u := range uses {
		if !u.test {
			imports[u.by] = append(imports[u.by], u.of)
		}
	}
	var shared []string
	seen := make(map[string]bool)
	var visit func(pkg string)
	visit = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, of := range imports[pkg] {
			if isInternal(of) && t.owner(of) != t.owner(pkg) {
				shared = append(shared, of)
			}
			visit(of)
		}
	}
	for pkg := range imports {
		if !isInternal(pkg) && slices.Contains(published, t.owner(pkg)) {
			visit(pkg)
		}
	}
	slices.Sort(shared)
	return slices.Compact(shared), nil
}

func isInternal(pkg string) bool { return slices.Contains(strings.Split(pkg, "/"), "internal") }
