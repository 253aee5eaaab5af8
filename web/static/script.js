"use strict";
// Follows the page's stream of events, each of which is the part of the page that changes, as HTML
// that the server has escaped.
(() => {
	const live = document.getElementById("live");
	const pause = document.getElementById("pause");
	const lost = document.getElementById("lost");
	let address = document.body.dataset.stream;
	let source, again, paused = false;
	if (!address) return;

	// morph makes one node like another. What stays as it is keeps focus and selection, and what is
	// folded out stays so; rows are recognized by data-key.
	const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.dataset || {}).key === (b.dataset || {}).key;
	const morph = (old, next) => {
		if (old.nodeType !== Node.ELEMENT_NODE) {
			if (old.data !== next.data) old.data = next.data;
			return;
		}
		for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		for (const { name } of [...old.attributes]) if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
		const keyed = new Map();
		for (const child of old.children) if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
		let at = old.firstChild;
		for (const child of [...next.childNodes]) {
			const key = (child.dataset || {}).key;
			const found = key === undefined ? at : keyed.get(key);
			if (!found || !alike(found, child)) {
				old.insertBefore(child, at);
				continue;
			}
			if (found === at) at = at.nextSibling;
			else old.insertBefore(found, at);
			morph(found, child);
		}
		while (at) {
			const gone = at;
			at = at.nextSibling;
			gone.remove();
		}
	};
	const show = html => {
		const next = new DOMParser().parseFromString(html, "text/html").body;
		const focused = document.activeElement;
		next.id = live.id;
		morph(live, next);
		if (focused !== document.activeElement && live.contains(focused)) focused.focus({ preventScroll: true });
	};

	const close = () => {
		clearTimeout(again);
		if (source) source.close();
		source = undefined;
	};
	const open = () => {
		close();
		source = new EventSource(address);
		source.onerror = () => {
			if (lost.hidden) lost.textContent = `Connection lost since ${new Date().toISOString().slice(11, 19)}Z: what is below is old.`;
			lost.hidden = false;
			// A browser gives up after an answer that is no stream.
			if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 5000);
		};
		source.onmessage = event => {
			lost.hidden = true;
			show(event.data);
			if (paused) close();
		};
	};
	const toggle = () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", paused);
		pause.textContent = paused ? "Paused" : "Pause";
		paused ? close() : open();
	};
	pause.hidden = false;
	pause.addEventListener("click", toggle);
	document.getElementById("keys").hidden = false;
	document.addEventListener("visibilitychange", () => {
		if (!paused) document.hidden ? close() : open();
	});
	addEventListener("pagehide", close);

	// The filter applies as it is typed.
	const filter = document.querySelector("form.filter");
	let typing;
	const apply = () => {
		const fields = new URLSearchParams();
		for (const [name, value] of new FormData(filter)) if (value) fields.set(name, value);
		history.replaceState(null, "", location.pathname + (fields.size ? "?" + fields : ""));
		fields.set("view", new URLSearchParams(address.split("?")[1]).get("view"));
		address = "events?" + fields;
		open();
	};
	if (filter) {
		filter.addEventListener("submit", event => {
			event.preventDefault();
			apply();
		});
		filter.addEventListener("input", () => {
			clearTimeout(typing);
			typing = setTimeout(apply, 150);
		});
	}

	document.addEventListener("keydown", event => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
		const rows = [...live.querySelectorAll("tbody td.name a")];
		const at = rows.indexOf(document.activeElement);
		const search = filter && filter.querySelector("[type=search]");
		switch (event.key) {
		case "/":
			if (!search) return;
			search.focus();
			break;
		case "p":
			toggle();
			break;
		case "j":
		case "k":
			if (!rows.length) return;
			rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : -1)))].focus();
			break;
		default:
			return;
		}
		event.preventDefault();
	});
	if (!document.hidden) open();
})();
