package command

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd is `holdfast man`, for packages of the command.
type manCmd struct {
	Folder text `arg:"" help:"Where to write the pages; it is made if it is missing."`
}

// Help is the long text of --help.
func (*manCmd) Help() string {
	return `Writes a manual page of the command, holdfast.1, and one of each verb, such as holdfast-run.1.

Examples:
	holdfast man /usr/local/share/man/man1
	holdfast man build && man build/holdfast-run.1`
}

// Run writes the pages, made from the same model as --help.
func (c *manCmd) Run(app *kong.Kong) error {
	if err := os.MkdirAll(string(c.Folder), 0o755); err != nil {
		return err
	}
	pages := map[string]string{"holdfast": manPage(app.Model.Node, nil)}
	for _, verb := range app.Model.Children {
		if verb.Hidden {
			continue
		}
		pages["holdfast-"+verb.Name] = manPage(verb, app.Model.Flags)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(string(c.Folder), name+".1"), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPage is a page in the man macros of roff (man(7)). Global are the flags of the
// command, which each verb has too.
func manPage(n *kong.Node, global []*kong.Flag) string {
	title, usage := "holdfast", "holdfast [flags] VERB ARGS…"
	if n.Type == kong.CommandNode {
		title, usage = "holdfast-"+n.Name, "holdfast "+usageText().Replace(n.Summary())
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q\n", strings.ToUpper(title), "", "Holdfast "+thisBuild().Version)
	short, _, _ := strings.Cut(n.Help, "\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", title, roff(short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(usage))
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, cmp.Or(n.Detail, n.Help))
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
		for _, a := range n.Positional {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.ToUpper(a.Name)), roff(a.Help))
		}
	}
	if n.Type != kong.CommandNode && len(n.Children) > 0 {
		b.WriteString(".SH VERBS\n")
		for _, verb := range n.Children {
			if !verb.Hidden {
				fmt.Fprintf(&b, ".TP\n.BR holdfast-%s (1)\n%s\n", roff(verb.Name), roff(verb.Help))
			}
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range append(n.Flags[:len(n.Flags):len(n.Flags)], global...) {
		if !f.Hidden {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f.String()), roff(f.Help))
		}
	}
	if n.Type == kong.CommandNode {
		b.WriteString(".SH SEE ALSO\n.BR holdfast (1)\n")
	}
	return b.String()
}

// manText writes paragraphs; lines that begin with a tab are not filled.
func manText(b *strings.Builder, text string) {
	asIs := false
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "\t"); indented != asIs {
			asIs = indented
			b.WriteString(map[bool]string{true: ".RS 4\n.nf\n", false: ".fi\n.RE\n"}[asIs])
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(strings.TrimPrefix(line, "\t")) + "\n")
	}
	if asIs {
		b.WriteString(".fi\n.RE\n")
	}
}

// roff escapes text: backslashes, hyphens, which readers may copy, and characters that would
// begin a macro line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
