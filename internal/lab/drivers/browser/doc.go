// Package browser tests the page in a real browser.
package browser
