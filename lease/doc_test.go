//go:build go1.25

package lease

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// declared returns the names of functions, types, variables and constants of the package and of
// package driver and, after their type's name, of methods and fields. Those of the packages in
// folder internal follow their package's name.
func declared(t *testing.T) map[string]bool {
	names := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	inside, err := filepath.Glob("internal/*/*.go")
	require.NoError(t, err)
	for _, file := range slices.Concat(files, []string{"driver/driver.go"}, inside) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		in := ""
		if slices.Contains(inside, file) {
			in = filepath.Base(filepath.Dir(file)) + "."
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					of := n.Recv.List[0].Type
					if pointer, ok := of.(*ast.StarExpr); ok {
						of = pointer.X
					}
					name = of.(*ast.Ident).Name + "." + name
				}
				names[in+name] = true
				return false
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[in+name.Name] = true
				}
			case *ast.TypeSpec:
				names[in+n.Name.Name] = true
				var members *ast.FieldList
				switch of := n.Type.(type) {
				case *ast.StructType:
					members = of.Fields
				case *ast.InterfaceType:
					members = of.Methods
				default:
					return true
				}
				for _, m := range members.List {
					for _, name := range m.Names {
						names[in+n.Name.Name+"."+name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// The proof, and the model for which z3 proves it, use the names of the code.
func TestProofHasTheNamesOfTheCode(t *testing.T) {
	is := declared(t)
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, proof, ok := strings.Cut(string(doc), "// # The protocol\n")
	require.True(t, ok)
	for _, line := range linesOfTheProof(t) {
		is[line] = true
	}
	proof = regexp.MustCompile(`\n//\s*`).ReplaceAllString(proof, " ")
	cited := 0
	for _, names := range regexp.MustCompile(`\(((?:\w|[.,\[\] ])+)\)`).FindAllStringSubmatch(proof, -1) {
		for name := range strings.SplitSeq(names[1], ", ") {
			if name = strings.Trim(name, "[]"); !strings.Contains(name, " ") {
				cited++
				assert.True(t, is[name], "doc.go cites %s", name)
			}
		}
	}
	assert.Greater(t, cited, 40)

	model, err := os.ReadFile("../internal/lab/proof/lease.smt2")
	require.NoError(t, err)
	is["the generator"], is["nobody"] = true, true
	for what, of := range map[string]string{
		"guard": `(?m)^\(define-fun (\S+) \(\) Bool true\)(?: *; (.*))?$`,
		"step":  `(?m)^(?:; (.*)\n)?\(push\)\n\(echo "(a [^"]*|the store [^"]*|time [^"]*)"\)$`,
	} {
		all := regexp.MustCompile(of).FindAllStringSubmatch(string(model), -1)
		require.Greater(t, len(all), 15, what)
		for _, m := range all {
			name, by := m[1], m[2]
			if what == "step" {
				name, by = by, name
			}
			for by := range strings.SplitSeq(by, ", ") {
				assert.True(t, is[by], "in lease.smt2, %q is what takes or keeps the %s %q", by, what, name)
			}
		}
	}
}
