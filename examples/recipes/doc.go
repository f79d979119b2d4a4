// Package recipes runs the recipes of docs/recipes.md against real servers and
// real frameworks. It is tests only; there is nothing to import.
package recipes
