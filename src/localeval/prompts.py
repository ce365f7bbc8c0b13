"""What models are asked, by language, and how a study asks in words of its own.

A prompt is a text with named places such as `{question}`; other braces stay as they are. A base model is not told anything: it is shown
examples, and goes on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from localeval.records import BadInput, near

PLACES = {
    "answer": ("sentinel", "passages", "question"),
    "judge": ("passages", "question", "answer", "gold"),
    "nothing": (),
}
ROLES = {
    "answer": "what a generator is asked",
    "judge": "what a judge is asked",
    "nothing": "what stands for a right answer where the documents hold none",
}

PROMPTS = {
    "en": {
        "answer": "Answer the question from the numbered passages only, in at most two sentences. Do not guess, add nothing of your own. "
        "If the passages do not hold the answer, write exactly {sentinel} and nothing else.\n\n{passages}\n\nQuestion: {question}",
        "judge": "Judge an answer to a question. Passages that it had to rest on:\n\n{passages}\n\nQuestion: {question}\nAnswer: {answer}\n"
        "What a right answer says: {gold}\n\nsupported: every claim of the answer is stated in the passages; a true claim not there is "
        "not supported. answers_question: the answer conveys the substance of the right answer. Reply with one JSON object and nothing "
        'else: {"supported": true or false, "answers_question": true or false, "reason": "one sentence"}',
        "nothing": "(the documents hold no answer)",
    },
    "tr": {
        "answer": "Soruyu yalnızca numaralı pasajlara dayanarak, en çok iki cümleyle yanıtla. Tahmin yürütme, kendinden bir şey ekleme. "
        "Yanıt pasajlarda yoksa yalnızca {sentinel} yaz.\n\n{passages}\n\nSoru: {question}",
        "judge": "Bir soruya verilen yanıtı değerlendir. Yanıtın dayanması gereken pasajlar:\n\n{passages}\n\nSoru: {question}\n"
        "Yanıt: {answer}\nDoğru yanıtın söylediği: {gold}\n\nsupported: yanıttaki her iddia pasajlarda geçiyor; doğru olsa da pasajlarda "
        "geçmeyen iddia desteklenmiş sayılmaz. answers_question: yanıt, doğru yanıtın özünü veriyor. Yalnızca tek bir JSON nesnesi yaz: "
        '{"supported": true ya da false, "answers_question": true ya da false, "reason": "bir cümle"}',
        "nothing": "(belgelerde yanıt yok)",
    },
    "de": {
        "answer": "Beantworte die Frage nur anhand der nummerierten Passagen und in höchstens zwei Sätzen. Rate nicht und füge "
        "nichts Eigenes hinzu. Steht die Antwort nicht in den Passagen, schreibe genau {sentinel} und sonst nichts.\n\n{passages}\n\n"
        "Frage: {question}",
        "judge": "Beurteile die Antwort auf eine Frage. Passagen, auf die sie sich stützen musste:\n\n{passages}\n\nFrage: {question}\n"
        "Antwort: {answer}\nWas eine richtige Antwort sagt: {gold}\n\nsupported: Jede Aussage der Antwort steht in den Passagen; eine "
        "wahre Aussage, die dort nicht steht, gilt nicht als belegt. answers_question: Die Antwort gibt den Kern der richtigen "
        "Antwort wieder. "
        "Gib genau ein JSON-Objekt aus und sonst nichts: "
        '{"supported": true oder false, "answers_question": true oder false, "reason": "ein Satz"}',
        "nothing": "(die Dokumente enthalten keine Antwort)",
    },
    "fr": {
        "answer": "Réponds à la question uniquement à partir des passages numérotés, en deux phrases au plus. Ne devine pas et n’ajoute "
        "rien de toi-même. Si la réponse ne se trouve pas dans les passages, écris exactement {sentinel} et rien d’autre.\n\n{passages}\n\n"
        "Question : {question}",
        "judge": "Évalue la réponse donnée à une question. Passages sur lesquels elle devait s’appuyer :\n\n{passages}\n\n"
        "Question : {question}\nRéponse : {answer}\nCe que dit une bonne réponse : {gold}\n\nsupported : chaque affirmation de la réponse "
        "figure dans les passages ; une affirmation vraie qui n’y figure pas n’est pas étayée. answers_question : la réponse rend "
        "l’essentiel de la bonne réponse. Écris un seul objet JSON et rien d’autre : "
        '{"supported": true ou false, "answers_question": true ou false, "reason": "une phrase"}',
        "nothing": "(les documents ne contiennent pas de réponse)",
    },
    "es": {
        "answer": "Responde a la pregunta solo a partir de los pasajes numerados y en dos frases como máximo. No adivines ni añadas nada "
        "por tu cuenta. Si la respuesta no está en los pasajes, escribe exactamente {sentinel} y nada más.\n\n{passages}\n\n"
        "Pregunta: {question}",
        "judge": "Evalúa la respuesta dada a una pregunta. Pasajes en los que debía apoyarse:\n\n{passages}\n\nPregunta: {question}\n"
        "Respuesta: {answer}\nLo que dice una respuesta correcta: {gold}\n\nsupported: cada afirmación de la respuesta figura en los "
        "pasajes; una afirmación cierta que no figure en ellos no está respaldada. answers_question: la respuesta transmite lo esencial de "
        "la respuesta correcta. Escribe un único objeto JSON y nada más: "
        '{"supported": true o false, "answers_question": true o false, "reason": "una frase"}',
        "nothing": "(los documentos no contienen la respuesta)",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Examples:
    """How a base model is led on. words: what stands before passage, question, right answer, answer and verdict; shown: passage,
    question, its right answer, another answer that does not convey it."""

    words: tuple[str, str, str, str, str]
    shown: tuple[tuple[str, str, str, str], ...]


EXAMPLES = {
    "en": Examples(("Passage", "Question", "Right answer", "Answer", "Verdict"), (
        ("The ferry to the island leaves at nine and at four.", "When does the ferry leave?", "At nine and at four.", "It leaves at noon."),
        ("Soak the beans overnight in cold water.", "How are the beans prepared?", "Soak them overnight in cold water.", "They are fried."),
    )),
    "tr": Examples(("Pasaj", "Soru", "Doğru yanıt", "Yanıt", "Karar"), (
        ("Adaya giden vapur dokuzda ve dörtte kalkar.", "Vapur ne zaman kalkar?", "Dokuzda ve dörtte.", "Öğlen kalkar."),
        ("Fasulyeyi bir gece soğuk suda beklet.", "Fasulye nasıl hazırlanır?", "Bir gece soğuk suda bekletilir.", "Kızartılır."),
    )),
    "de": Examples(("Passage", "Frage", "Richtige Antwort", "Antwort", "Urteil"), (
        ("Die Fähre zur Insel fährt um neun und um vier.", "Wann fährt die Fähre?", "Um neun und um vier.", "Sie fährt mittags."),
        ("Die Bohnen über Nacht in kaltem Wasser einweichen.", "Wie bereitet man die Bohnen vor?",
         "Man weicht sie über Nacht in kaltem Wasser ein.", "Man brät sie."),
    )),
    "fr": Examples(("Passage", "Question", "Bonne réponse", "Réponse", "Verdict"), (
        ("Le bac pour l’île part à neuf heures et à quatre heures.", "Quand part le bac ?", "À neuf heures et à quatre heures.",
         "Il part à midi."),
        ("Laissez tremper les haricots toute la nuit dans l’eau froide.", "Comment prépare-t-on les haricots ?",
         "On les laisse tremper toute la nuit dans l’eau froide.", "On les fait frire."),
    )),
    "es": Examples(("Pasaje", "Pregunta", "Respuesta correcta", "Respuesta", "Veredicto"), (
        ("El transbordador a la isla sale a las nueve y a las cuatro.", "¿Cuándo sale el transbordador?", "A las nueve y a las cuatro.",
         "Sale al mediodía."),
        ("Deja las judías en remojo toda la noche en agua fría.", "¿Cómo se preparan las judías?",
         "Se dejan en remojo toda la noche en agua fría.", "Se fríen."),
    )),
}  # fmt: skip


def chosen(language: str, own: Mapping[str, str], source: str) -> dict[str, str]:
    """The prompts of a language, those that a study gives itself in place of ours. own: of ROLES; source: the file that gives them."""
    if language not in PROMPTS:
        known = ", ".join(PROMPTS)
        raise BadInput(f"{source}: language: no prompts in {language!r}{near(language, PROMPTS)}; known: {known}")
    for role, text in own.items():
        if role not in PLACES:
            raise BadInput(f"{source}: prompts: unknown {role!r}{near(role, PLACES)}; known: {', '.join(PLACES)}")
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"{source}: prompts: {role} must be a text: {ROLES[role]}")
        named = set(re.findall(r"\{(\w+)\}", text))
        for place in PLACES[role]:
            if place not in named:
                raise BadInput(f"{source}: prompts: {role} lacks {{{place}}}; it needs {_places(role)}")
        for place in sorted(named - set(PLACES[role])):
            raise BadInput(f"{source}: prompts: {role} has {{{place}}}, which is no place; it knows {_places(role)}")
    return PROMPTS[language] | dict(own)


def _places(role: str) -> str:
    return ", ".join(f"{{{place}}}" for place in PLACES[role]) or "none"


def fill(prompt: str, **texts: str) -> str:
    """A prompt with its places filled, all at once: what is filled in is not read for places again."""
    return re.sub(r"\{(\w+)\}", lambda match: texts.get(match[1], match[0]), prompt)


def led_on(language: str) -> Examples:
    """The examples for a base model; English where there are none in a language."""
    return EXAMPLES.get(language, EXAMPLES["en"])
