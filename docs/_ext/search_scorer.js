// Order of the site's search results: guides first, lists of everything last. Settings and names of the code match any word
// of a query, so they count only in queries of at most two words.
const FOLDERS = [
  [/^(guide|install|quickstart|versions)/, 4],
  [/^(concepts|decision|whats_new|glossary|auto_gallery|recipes)/, 2],
  [/^(changelog|contributing|design|benchmarks)/, -3],
];

var Scorer = {
  score: ([docName, , , , score, , kind]) => {
    const query = new URLSearchParams(window.location.search).get("q") ?? "";
    const isQuestion = query.trim().split(/\s+/).length > 2;
    const found = FOLDERS.find(([folder]) => folder.test(docName));
    return score + (found ? found[1] : 0) - (isQuestion && kind === "object" ? 40 : 0);
  },
  // the values of Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
