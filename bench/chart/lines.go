package chart

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Series is a line of a Lines panel: a value for each place on the x axis.
type Series struct {
	Name   string
	Role   Role
	Values []float64
}

// Lines is a panel of series over the same sizes, on a logarithmic x axis.
type Lines struct {
	Title, XLabel string
	X             []float64
	Series        []Series
}

func (l Lines) draw() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = l.Title, l.XLabel
	p.Title.TextStyle.Font.Size = 10
	var values []float64
	for _, s := range l.Series {
		values = append(values, s.Values...)
	}
	log, low, high := scaleOf(values)
	if log {
		p.Y.Scale = plot.LogScale{}
	}
	p.Y.Tick.Marker = ticks(log)
	p.Y.Min, p.Y.Max = low, high
	p.X.Scale = plot.LogScale{}
	p.X.Min, p.X.Max = slices.Min(l.X), slices.Max(l.X)
	p.X.Tick.Marker = plot.TickerFunc(func(float64, float64) []plot.Tick {
		var all []plot.Tick
		for _, x := range l.X {
			all = append(all, plot.Tick{Value: x, Label: Number(x)})
		}
		return all
	})
	p.Add(plotter.NewGrid())
	for i, s := range l.Series {
		xy := make(plotter.XYs, len(l.X))
		for k, x := range l.X {
			xy[k] = plotter.XY{X: x, Y: max(s.Values[k], low)}
		}
		line, points, err := s.marks(i, xy)
		if err != nil {
			return nil, err
		}
		p.Add(line, points)
	}
	return p, nil
}

// Key is the legend of the Lines panels beside it.
type Key struct{ Series []Series }

func (k Key) draw() (*plot.Plot, error) {
	p := plot.New()
	p.HideAxes()
	p.X.Max, p.Y.Max = 1, 1
	p.Legend.Top, p.Legend.Left, p.Legend.YOffs = true, true, vg.Points(-10)
	p.Legend.TextStyle.Font.Size = 10
	for i, s := range k.Series {
		line, points, err := s.marks(i, plotter.XYs{{X: 0.5, Y: -1}})
		if err != nil {
			return nil, err
		}
		p.Legend.Add(s.Name, line, points)
	}
	return p, nil
}

// marks returns the line and the points of a series.
func (s Series) marks(i int, xy plotter.XYs) (*plotter.Line, *plotter.Scatter, error) {
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return nil, nil, err
	}
	line.Color, line.Width, line.Dashes = s.Role.colour(), vg.Points(1.5), dashes(i)
	points.GlyphStyle = draw.GlyphStyle{Color: s.Role.colour(), Radius: vg.Points(3), Shape: shape(i)}
	return line, points, nil
}

// dashes and shapes distinguish lines of one colour.
func dashes(i int) []vg.Length {
	return [][]vg.Length{nil, nil, {6, 2}, {2, 2}, {8, 2, 2, 2}}[i%5]
}

func shape(i int) draw.GlyphDrawer {
	return []draw.GlyphDrawer{draw.SquareGlyph{}, draw.CircleGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}}[i%5]
}
