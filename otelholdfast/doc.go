// Package otelholdfast reports what Holdfast does as OpenTelemetry metrics and
// spans.
//
//	hook, err := otelholdfast.NewHook()
//	...
//	client, err := holdfast.New(engine, holdfast.WithHooks(hook))
//	...
//	observed, err := otelholdfast.Observe(client)
//
// Names, units and attributes are in docs/METRICS.md. They do not contain the
// names of resources, of which there may be very many: see [WithResourceLabel].
// Holder IDs and the texts of errors are never exported. One hook may serve
// several clients.
package otelholdfast
