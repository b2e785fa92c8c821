// The search of contents.html: finds sections in which each search word is the beginning of a word.
// Matches in the title count most, then those in the heading.
"use strict";

function score(section, wanted) {
    const [, title, heading, words] = section;
    const places = [[title, 8], [heading, 4], [words, 1]].map(
        ([text, weight]) => [" " + text.toLowerCase().replace(/[^a-z0-9_]+/g, " ") + " ", weight]);
    let sum = 0;
    for (const word of wanted) {
        let best = 0;
        for (const [text, weight] of places) {
            if (text.includes(" " + word + " ")) best = Math.max(best, 2 * weight);
            else if (text.includes(" " + word)) best = Math.max(best, weight);
        }
        if (best === 0) return 0;
        sum += best;
    }
    return sum;
}

function show(query) {
    const wanted = query.toLowerCase().match(/[a-z0-9_]+/g) || [];
    const results = document.getElementById("results");
    results.replaceChildren();
    document.getElementById("all").hidden = wanted.length > 0;
    if (wanted.length === 0) return;
    const found = sections.map((section) => [score(section, wanted), section])
        .filter(([points]) => points > 0).sort((one, other) => other[0] - one[0]);
    const summary = document.createElement("p");
    summary.textContent = found.length === 0 ? "Nothing found." :
        found.length === 1 ? "1 section" : found.length + " sections";
    const list = document.createElement("ol");
    for (const [, [address, title, heading]] of found.slice(0, 100)) {
        const link = document.createElement("a");
        link.href = address;
        link.textContent = title;
        const item = document.createElement("li");
        item.append(link, heading ? ": " + heading : "");
        list.append(item);
    }
    results.append(summary, list);
}

const words = document.getElementById("words");
words.value = new URLSearchParams(location.search).get("q") || "";
words.addEventListener("input", () => show(words.value));
show(words.value);
