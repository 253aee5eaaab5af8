package chart

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Dot is one line of a Dots panel: a value and its range.
type Dot struct {
	Name            string
	Role            Role
	Value, Min, Max float64
}

// Dots is a panel with one dot a line, from the top down, and its value beside it. The
// axis is logarithmic if the values differ much.
type Dots struct {
	Title string
	Dots  []Dot
}

func (d Dots) draw() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = d.Title
	p.Title.TextStyle.Font.Size = 10
	var values []float64
	names := make([]string, len(d.Dots))
	for i, dot := range d.Dots {
		values = append(values, dot.Value)
		names[len(names)-1-i] = dot.Name
	}
	log, low, high := scaleOf(values)
	p.X.Min, p.X.Max = low, high
	if log {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker = ticks(log)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	p.Add(plotter.NewGrid())
	for i, dot := range slices.Backward(d.Dots) {
		if err := dot.addTo(p, float64(len(names)-1-i), low, high); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addTo draws the range, the dot and the value. Values outside the axis are drawn at its
// edge.
func (d Dot) addTo(p *plot.Plot, y, low, high float64) error {
	at := func(v float64) float64 { return min(max(v, low), high) }
	line, err := plotter.NewLine(plotter.XYs{{X: at(d.Min), Y: y}, {X: at(d.Max), Y: y}})
	if err != nil {
		return err
	}
	line.Color, line.Width = d.Role.colour(), vg.Points(1.5)
	dot, err := plotter.NewScatter(plotter.XYs{{X: at(d.Value), Y: y}})
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: d.Role.colour(), Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
	label, err := plotter.NewLabels(plotter.XYLabels{
		XYs: plotter.XYs{{X: at(d.Value), Y: y}}, Labels: []string{Number(d.Value)},
	})
	if err != nil {
		return err
	}
	label.Offset = vg.Point{X: 4, Y: 4}
	label.TextStyle[0].Font.Size = 8
	p.Add(line, dot, label)
	return nil
}
