// Package webtest has only tests: those of the dashboard in a real browser, a
// headless Chromium, on a real Redis. It is a module of its own so that users
// of Holdfast do not get the driver of the browser.
package webtest
